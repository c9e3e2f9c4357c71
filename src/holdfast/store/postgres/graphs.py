"""Graphs are written to Postgres in a few statements, however many flows and nodes there are. Many
nodes are copied, unless they come over a caller's own connection: its driver may not have COPY."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from holdfast.flow.model import UNHELD, FlowId, NewFlow, NewGate, NewNode
from holdfast.job.ids import JobId
from holdfast.job.ties import Tie
from holdfast.store.contract.flows import Started
from holdfast.store.postgres.batch import RunsScripts
from holdfast.store.postgres.body import array_literal
from holdfast.store.postgres.connection import Connections, Session
from holdfast.store.postgres.copy_format import boolean, double, fields, integer, small, text, uuid
from holdfast.store.postgres.copying import can_copy_nodes, copy_jobs, copy_rows
from holdfast.store.postgres.inserting import insert_on

Rows = list[tuple[Any, ...]]


@dataclass(slots=True)
class Added:
    """Rows that are to be written, and the ids of all upstreams among them."""

    nodes: Rows = field(default_factory=list)
    gates: Rows = field(default_factory=list)
    edges: Rows = field(default_factory=list)
    graphs: Rows = field(default_factory=list)

    def add_nodes(self, flow: FlowId, nodes: Sequence[NewNode]) -> None:
        for node in nodes:
            row = (flow, node.job.id, node.name, node.is_sink, node.delay, node.inputs)
            self.nodes.append(row)
            self.add_gates(flow, node.job.id, node.gates)

    def add_gates(self, flow: FlowId, job: JobId, gates: Sequence[NewGate], first: int = 0) -> None:
        for n, gate in enumerate(gates, first):
            self.gates.append((job, n, flow, gate.need, gate.total, gate.losers.value))
            self.edges += [(edge.upstream, job, n, edge.wants) for edge in gate.edges]

    @property
    def upstreams(self) -> list[JobId]:
        return [upstream for upstream, *_ in self.edges]

    async def copy(self, connections: Connections, session: Session) -> None:
        """Write all by COPY. The graphs have numbers, which only a statement knows."""
        copy = partial(copy_rows, connections, session)
        keys = _Keys()
        await copy("node", _NODE, (_node_bytes(keys, *row) for row in self.nodes))
        if self.gates:
            await copy("gate", _GATE, (_gate_bytes(keys, *row) for row in self.gates))
            await copy("edge", _EDGE, (_edge_bytes(keys, *row) for row in self.edges))
        await Added(graphs=self.graphs).write(session)

    async def write(self, on: RunsScripts) -> None:
        columns = (
            *_columns(self.nodes, 6),
            *_columns(self.gates, 6),
            *_columns(self.edges, 4),
            *_columns(self.graphs, 2),
        )
        await on.fetch("flows/add", *columns)


class _Keys(dict[str, bytes]):
    """The bytes of ids, each made once: a node is named by its edges too."""

    def __missing__(self, key: str) -> bytes:
        made = self[key] = uuid(key)
        return made


_NODE = ("flow_id", "job_id", "name", "is_sink", "delay", "inputs")
_GATE = ("job_id", "n", "flow_id", "need", "total", "losers")
_EDGE = ("upstream", "downstream", "n", "wants")
_HEAD = {count: fields(count) for count in (4, 6)}


def _node_bytes(
    keys: _Keys, flow: str, job: str, name: str, sink: bool, delay: float | None, inputs: str | None
) -> bytes:
    own = text(name) + boolean(sink) + double(delay) + text(inputs)
    return _HEAD[6] + keys[flow] + keys[job] + own


def _gate_bytes(
    keys: _Keys, job: str, n: int, flow: str, need: int, total: int, losers: str
) -> bytes:
    counts = integer(need) + integer(total) + text(losers)
    return _HEAD[6] + keys[job] + integer(n) + keys[flow] + counts


def _edge_bytes(keys: _Keys, upstream: str, downstream: str, n: int, wants: int) -> bytes:
    return _HEAD[4] + keys[upstream] + keys[downstream] + integer(n) + small(wants)


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
        await copy_jobs(connections, on, jobs)
        await added.copy(connections, on)
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
