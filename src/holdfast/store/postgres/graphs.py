"""Graphs are written to Postgres in a few statements, however many flows and nodes there are. Many
nodes are copied, unless they come over a caller's own connection: its driver may not have COPY."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache, partial
from typing import Any

import msgspec

from holdfast.flow.model import UNHELD, FlowId, NewFlow, NewGate, NewNode
from holdfast.job.ids import JobId
from holdfast.job.ties import Tie
from holdfast.store.contract.flows import Started
from holdfast.store.postgres.batch import RunsScripts
from holdfast.store.postgres.body import array_literal
from holdfast.store.postgres.connection import Connections, Session
from holdfast.store.postgres.copy_format import (
    NULL,
    boolean,
    double,
    each_uuid,
    fields,
    integer,
    long,
    longs,
    text,
    uuid,
    uuids,
)
from holdfast.store.postgres.copying import can_copy_nodes, copy_jobs, copy_rows
from holdfast.store.postgres.inserting import insert_on

Rows = list[tuple[Any, ...]]


Edges = list[tuple[JobId, int]]
"""The nodes that wait for one node, each with 32 × the number of its gate + the ends that win."""


class Added(msgspec.Struct):
    """What is to be written. `edges` are by upstream, in whose row they lie."""

    nodes: list[tuple[FlowId, NewNode]] = msgspec.field(default_factory=list)
    gates: Rows = msgspec.field(default_factory=list)
    edges: dict[JobId, Edges] = msgspec.field(default_factory=dict)
    graphs: Rows = msgspec.field(default_factory=list)

    def add_nodes(self, flow: FlowId, nodes: Sequence[NewNode], first: int = 0) -> None:
        for node in nodes:
            self.nodes.append((flow, node))
            if node.gates:
                self.add_gates(flow, node.job.id, node.gates, first)

    def add_gates(self, flow: FlowId, job: JobId, gates: Sequence[NewGate], first: int = 0) -> None:
        """`first` is the number of the first of these gates."""
        known = self.edges.setdefault
        for n, gate in enumerate(gates, first):
            edges = gate.edges
            self.gates.append((job, n, flow, gate.need, len(edges), gate.losers.value))
            for edge in edges:
                known(edge.upstream, []).append((job, 32 * n + edge.wants))

    async def copy(self, connections: Connections, session: Session, keys: Keys) -> None:
        """Write all by COPY, but for edges of nodes that are there already, and graphs: these have
        numbers, which only a statement knows."""
        copy, left = partial(copy_rows, connections, session), self.edges.copy()
        await copy("node", _NODE, [_node_bytes(keys, left, *one) for one in self.nodes])
        if self.gates:
            await copy("gate", _GATE, [_gate_bytes(keys, *row) for row in self.gates])
        await Added(edges=left, graphs=self.graphs).write(session)

    async def write(self, on: RunsScripts) -> None:
        nodes = [
            (flow, node.job.id, node.name, node.is_sink, node.delay, node.inputs)
            for flow, node in self.nodes
        ]
        edges = [(upstream, *one) for upstream, some in self.edges.items() for one in some]
        columns = (
            *_columns(nodes, 6),
            *_columns(self.gates, 6),
            *_columns(edges, 3),
            *_columns(self.graphs, 2),
        )
        await on.fetch("flows/add", *columns)


class Keys(dict[str, bytes]):
    """The bytes of ids, each made once: a node is named by its job, its gates and its edges."""

    def __missing__(self, key: str) -> bytes:
        made = self[key] = uuid(key)
        return made


_NODE = ("flow_id", "job_id", "name", "is_sink", "delay", "inputs", "behind", "wants")
_GATE = ("job_id", "n", "flow_id", "need", "total", "losers")
_HEAD = {count: fields(count) for count in (6, 8)}
_NODE_HEAD, _NO_EDGES = _HEAD[8], NULL + NULL


def _node_bytes(keys: Keys, edges: dict[JobId, Edges], flow: FlowId, node: NewNode) -> bytes:
    """A row with the edges of the node, which are taken."""
    job = node.job.id
    named = _named(node.name, node.is_sink, node.delay)
    own = _NODE_HEAD + keys[flow] + keys[job] + named + text(node.inputs)
    if (behind := edges.pop(job, None)) is None:
        return own + _NO_EDGES
    jobs, wants = zip(*behind, strict=True)
    return own + uuids([keys[one] for one in jobs]) + _wants(wants)


def _gate_bytes(
    keys: Keys, job: str, n: int, flow: str, need: int, total: int, losers: str
) -> bytes:
    return _HEAD[6] + keys[job] + long(n) + keys[flow] + _counts(need, total, losers)


# Flows of one shape have the same names, edges and gates, so these bytes are made once for many.


@lru_cache(maxsize=4096)
def _named(name: str, sink: bool, delay: float | None) -> bytes:
    return text(name) + boolean(sink) + double(delay)


@lru_cache(maxsize=4096)
def _wants(wants: tuple[int, ...]) -> bytes:
    return longs(wants)


@lru_cache(maxsize=4096)
def _counts(need: int, total: int, losers: str) -> bytes:
    return integer(need) + integer(total) + text(losers)


def _columns(rows: Rows, count: int) -> list[list[Any]]:
    return [*map(list, zip(*rows, strict=True))] if rows else [[] for _ in range(count)]


async def start_on(
    on: RunsScripts, connections: Connections, flows: Sequence[NewFlow], key_wait: str | None
) -> list[Started]:
    """Insert flows on this connection, inside one transaction; answers in the order asked.
    `key_wait` bounds the wait for a unique key that an open transaction holds."""
    first = {flow.id: flow for flow in reversed(flows)}
    answers: dict[FlowId, Started] = {}
    left = list(first.values())[::-1]
    if children := {
        flow.id: flow for flow in left if flow.parent is not None and flow.fence != UNHELD
    }:
        unheld = [children[one] for one in await _unheld(on, children.values())]
        answers.update((flow.id, Started(flow.id, "not held")) for flow in unheld)
        answers.update(await _known(on, unheld))
        left = [flow for flow in left if flow.id not in answers]
    while left:
        created = await _insert(on, connections, left, key_wait)
        answers.update((one, Started(one, "created")) for one in created)
        left = [flow for flow in left if flow.id not in answers]
        answers.update(await _known(on, left))
        # The flow that had a key may have ended before it was looked for.
        left = [flow for flow in left if flow.id not in answers]
    return [
        answers[flow.id] if flow.name == first[flow.id].name else Started(flow.id, "taken")
        for flow in flows
    ]


async def _unheld(on: RunsScripts, flows: Collection[NewFlow]) -> list[FlowId]:
    """Tie the parents of these flows to them. Answers with the flows whose parent does not run with
    its fence."""
    parents, fences = [flow.parent for flow in flows], [flow.fence for flow in flows]
    found = await on.fetch("flows/hold", parents, fences, int(Tie.PARENT))
    held = {row[0] for row in found}
    return [flow.id for flow in flows if flow.parent not in held]


async def _insert(
    on: RunsScripts, connections: Connections, flows: Sequence[NewFlow], key_wait: str | None
) -> list[FlowId]:
    found = await on.fetch(
        "flows/start",
        connections.clock.override(),
        [flow.id for flow in flows],
        [flow.name for flow in flows],
        [len(flow.nodes) for flow in flows],
        [flow.unique_key for flow in flows],
        [array_literal(flow.tags) for flow in flows],
        [flow.parent for flow in flows],
        [msgspec.json.encode(flow.keep).decode() for flow in flows],
        key_wait,
    )
    created = {row[0] for row in found}
    new, added = [flow for flow in flows if flow.id in created], Added()
    for flow in new:
        added.graphs.append((flow.id, flow.graph))
        added.add_nodes(flow.id, flow.nodes)
    if new:
        await add(on, connections, [node for flow in new for node in flow.nodes], added)
    return [flow.id for flow in new]


async def add(
    on: RunsScripts, connections: Connections, nodes: Sequence[NewNode], added: Added
) -> None:
    """Write the jobs of new nodes, and then all that belongs to them."""
    jobs = [node.job for node in nodes]
    if isinstance(on, Session) and connections.may_copy and can_copy_nodes(jobs):
        ids = [job.id for job in jobs]
        keys = Keys(zip(ids, each_uuid(ids), strict=True))
        await copy_jobs(connections, on, jobs, map(keys.__getitem__, ids))
        await added.copy(connections, on, keys)
        return
    if jobs:
        await insert_on(on, connections, jobs)
    await added.write(on)


async def _known(on: RunsScripts, flows: Sequence[NewFlow]) -> dict[FlowId, Started]:
    """What is there instead of these flows: themselves, another of their id, or one of their
    key."""
    if not flows:
        return {}
    answers: dict[FlowId, Started] = {}
    names = {flow.id: flow.name for flow in flows}
    ids, keys = list(names), [flow.unique_key for flow in flows]
    for flow, name, holder in await on.fetch("flows/known", ids, keys):
        if name is not None:
            answers[flow] = Started(flow, "created" if name == names[flow] else "taken")
        elif holder is not None:
            answers[flow] = Started(holder, "existing")
    return answers
