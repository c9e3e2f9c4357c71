"""Writing graphs: the rows of new nodes, and gates of nodes that are there.

A gate is a row. The edges of a node lie in its own row as JSON: the ids of the nodes that wait for
it, each with a number that says at which gate, and which ends win. An edge counts if its gate is
there when its upstream ends, so nothing takes edges away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.flow.model import BITS, FlowId, NewFlow, NewGate, NewNode, is_bad_end
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.store.sqlite.inserting import insert
from holdfast.store.sqlite.rows import to_json
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.settling import EndedNode, judge, why_lost
from holdfast.store.sqlite.transaction import Row, Transaction

Gates = Mapping[JobId, Sequence[NewGate]]


class Wiring:
    """Gates that are to be written, and their edges by upstream. `ended` has the name and the end
    of upstreams that have ended: they count at once. `because` says why an edge was lost to one."""

    __slots__ = ("because", "edges", "ended", "gates")

    def __init__(self, ended: Mapping[str, tuple[str, EndedNode]]) -> None:
        self.ended = ended
        self.gates: list[Row] = []
        self.edges: dict[str, list[str]] = {}
        self.because: dict[tuple[str, int], str] = {}

    def add(self, flow: FlowId, job: JobId, gates: Sequence[NewGate], first: int = 0) -> None:
        for n, gate in enumerate(gates, first):
            counts = self._connect(job, n, gate)
            self.gates.append((job, n, flow, gate.need, gate.total, gate.losers.value, *counts))

    def _connect(self, job: JobId, n: int, gate: NewGate) -> tuple[int, int, bool]:
        """The won and lost edges of the gate, and whether one was lost to a bad end."""
        won = lost = 0
        is_bad = False
        for edge in gate.edges:
            if (known := self.ended.get(edge.upstream)) is None:
                behind = f'"{job}":{32 * n + edge.wants}'
                self.edges.setdefault(edge.upstream, []).append(behind)
            elif edge.wants & BITS[known[1].state]:
                won += 1
            else:
                lost += 1
                is_bad = is_bad or known[1].is_bad
                said = why_lost(known[0], known[1].state)
                self.because[job, n] = min(self.because.get((job, n), said), said)
        return won, lost, is_bad

    def take(self, upstream: JobId) -> str | None:
        """The edges of a node that is written with them."""
        edges = self.edges.pop(upstream, None)
        return None if edges is None else f"{{{','.join(edges)}}}"

    def write(self, tx: Transaction) -> None:
        """Write the gates, and the edges of nodes that are there already."""
        sql = steps("flows/start")
        tx.each(sql["gate"], self.gates)
        if self.edges:
            tx.each(sql["edges"], [(",".join(some), job) for job, some in self.edges.items()])


def write_flows(tx: Transaction, flows: Sequence[NewFlow]) -> None:
    sql = steps("flows/start")
    tx.each(sql["flow"], [_flow_row(flow, tx.now) for flow in flows])
    tx.each(sql["graph"], [(flow.id, 1, flow.graph) for flow in flows])
    wiring = Wiring({})
    nodes = [(flow.id, node) for flow in flows for node in flow.nodes]
    for flow, node in nodes:
        if node.gates:
            wiring.add(flow, node.job.id, node.gates)
    _write_nodes(tx, nodes, wiring)
    wiring.write(tx)


def _flow_row(flow: NewFlow, now: int) -> Row:
    total = len(flow.nodes)
    keep = msgspec.json.encode(flow.keep).decode()
    tags = to_json(flow.tags) if flow.tags else None
    return (flow.id, flow.name, total, total, flow.unique_key, tags, flow.parent, keep, now)


def _write_nodes(tx: Transaction, nodes: Sequence[tuple[FlowId, NewNode]], wiring: Wiring) -> None:
    insert(tx, [node.job for _, node in nodes])
    rows = [
        (one.job.id, flow, one.name, one.is_sink, one.delay, one.inputs, wiring.take(one.job.id))
        for flow, one in nodes
    ]
    tx.each(steps("flows/start")["node"], rows)


def grow(tx: Transaction, flow: FlowId, nodes: Sequence[NewNode], gates: Gates) -> None:
    """Add nodes to a flow, and gates to nodes that it has, and judge what that decides."""
    new: Gates = {node.job.id: node.gates for node in nodes if node.gates}
    wiring = Wiring(_ended(tx, (*new.values(), *gates.values())))
    for job, some in new.items():
        wiring.add(flow, job, some)
    firsts = _next_numbers(tx, flow, gates) if gates else {}
    for job, some in gates.items():
        wiring.add(flow, job, some, firsts[job])
    _write_nodes(tx, [(flow, node) for node in nodes], wiring)
    wiring.write(tx)
    if wiring.gates:
        judge(tx, (*new, *gates), wiring.because)


def replace_gates(tx: Transaction, flow: FlowId, gates: Gates) -> None:
    """Give blocked nodes these gates instead of those that they have, counted anew, and judge
    them."""
    jobs = to_json(gates)
    tx.run(steps("flows/settle")["drop gates"], (jobs,))
    tx.run(steps("flows/start")["drop edges"], {"flow_id": flow, "jobs": jobs})
    wiring = Wiring(_ended(tx, gates.values()))
    for job, some in gates.items():
        wiring.add(flow, job, some)
    wiring.write(tx)
    judge(tx, gates, wiring.because)


def _ended(tx: Transaction, gates: Iterable[Sequence[NewGate]]) -> dict[str, tuple[str, EndedNode]]:
    """The name and the end of those upstreams of these gates that have ended."""
    upstreams = {edge.upstream for some in gates for gate in some for edge in gate.edges}
    if not upstreams:
        return {}
    found: dict[str, tuple[str, EndedNode]] = {}
    for job, name, state, is_bad in tx.rows(steps("flows/start")["ended"], (to_json(upstreams),)):
        end = JobState(state)
        found[job] = (name, EndedNode(end, is_bad_end(end, is_bad=bool(is_bad))))
    return found


def _next_numbers(tx: Transaction, flow: FlowId, jobs: Iterable[JobId]) -> dict[JobId, int]:
    """The first numbers that neither gates of these nodes have, nor edges of gates that were."""
    firsts = dict.fromkeys(jobs, 0)
    values = {"flow_id": flow, "jobs": to_json(firsts)}
    for job, last in tx.rows(steps("flows/start")["last gates"], values):
        firsts[job] = last + 1
    return firsts
