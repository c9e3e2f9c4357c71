"""Writing graphs: the rows of new nodes, and gates of nodes that are there.

A gate is a row. The edges of a node lie in its own row as JSON: the ids of the nodes that wait for
it, each with a number that says at which gate, and which ends win. An edge counts if its gate is
there when its upstream ends, so nothing takes edges away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.flow.model import (
    BITS,
    FlowId,
    NewEdge,
    NewFlow,
    NewGate,
    NewNode,
    first_gate,
    is_bad_end,
)
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.store.sqlite.inserting import write_new
from holdfast.store.sqlite.releasing import Lost
from holdfast.store.sqlite.rows import to_json
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.settling import judge, nodes_of, why_lost
from holdfast.store.sqlite.transaction import Row, Transaction

Gates = Mapping[JobId, Sequence[NewGate]]


class Wiring:
    """Gates that are to be written, and their edges by upstream. `ended` are upstreams that have
    ended: they count at once. Their edges are written too, for the look at the end of the flow.
    `lost` says more of those to which edges are lost, and `because` why a gate lost one."""

    __slots__ = ("because", "edges", "ended", "gates", "lost")

    def __init__(self, ended: Mapping[str, JobState], lost: Mapping[str, Lost]) -> None:
        self.ended = ended
        self.lost = lost
        self.gates: list[Row] = []
        self.edges: dict[str, list[str]] = {}
        self.because: dict[tuple[str, int], str] = {}

    def add(self, flow: FlowId, job: JobId, gates: Sequence[NewGate], first: int = 0) -> None:
        for n, gate in enumerate(gates, first):
            edges = gate.edges
            losers = gate.losers.value  # sqlite3 takes texts and numbers at once, and asks others
            counted = self._counted(job, n, edges) if self.ended else (0, 0, 0)
            self.gates.append((job, n, flow, gate.need, len(edges), losers, *counted))
            for edge in edges:
                behind = f'"{job}":{32 * n + edge.wants}'
                self.edges.setdefault(edge.upstream, []).append(behind)

    def _counted(self, job: JobId, n: int, edges: Sequence[NewEdge]) -> tuple[int, int, int]:
        """The won and lost edges of a gate, and whether one was lost to a bad end."""
        won = lost = is_bad = 0
        for edge in edges:
            if (state := self.ended.get(edge.upstream)) is None:
                continue
            if edge.wants & BITS[state]:
                won += 1
            else:
                lost += 1
                end = self.lost[edge.upstream]
                is_bad |= end.is_bad
                self.because[job, n] = min(self.because.get((job, n), end.because), end.because)
        return won, lost, is_bad

    def take(self, upstream: JobId) -> str | None:
        """The edges of a node that is written with them."""
        edges = self.edges.pop(upstream, None)
        return None if edges is None else f"{{{','.join(edges)}}}"

    def write(self, tx: Transaction) -> None:
        """Write the gates, and the edges of nodes that are there already."""
        tx.fill(steps("flows/start")["gate"], self.gates)
        self.write_edges(tx)

    def write_edges(self, tx: Transaction) -> None:
        if self.edges:
            edges = [(",".join(some), job) for job, some in self.edges.items()]
            tx.each(steps("flows/start")["edges"], edges)


def write_flows(tx: Transaction, flows: Sequence[NewFlow]) -> None:
    sql = steps("flows/start")
    tx.fill(sql["flow"], [_flow_row(flow, tx.now) for flow in flows])
    tx.fill(sql["graph"], [(flow.id, 1, flow.graph) for flow in flows])
    wiring = Wiring({}, {})
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
    if nodes:
        write_new(tx, [node.job for _, node in nodes])
    rows = [
        (job := one.job.id, flow, one.name, +one.is_sink, one.delay, one.inputs, wiring.take(job))
        for flow, one in nodes
    ]
    tx.fill(steps("flows/start")["node"], rows)


def grow(tx: Transaction, flow: FlowId, epoch: int, nodes: Sequence[NewNode], gates: Gates) -> None:
    """Add nodes to a flow, and gates to nodes that it has, and judge what that decides."""
    new: Gates = {node.job.id: node.gates for node in nodes if node.gates}
    wiring = _wiring(tx, (*new.values(), *gates.values()))
    for job, some in new.items():
        wiring.add(flow, job, some)
    for job, some in gates.items():
        wiring.add(flow, job, some, first_gate(epoch))
    _write_nodes(tx, [(flow, node) for node in nodes], wiring)
    wiring.write(tx)
    if wiring.gates:
        judge(tx, (*new, *gates), wiring.because)


def keep_gates(tx: Transaction, flow: FlowId, epoch: int, gates: Gates) -> None:
    """Keep gates of skipped nodes. The end of the flow looks at all their edges."""
    wiring = Wiring({}, {})
    for job, some in gates.items():
        wiring.add(flow, job, some, first_gate(epoch))
    wiring.write_edges(tx)
    kept = [(flow, job, n, need) for job, n, _, need, *_ in wiring.gates]
    tx.each(steps("flows/settle")["keep gate"], kept)


def replace_gates(tx: Transaction, flow: FlowId, gates: Gates) -> None:
    """Give blocked nodes these gates instead of those that they have, counted anew, and judge
    them."""
    jobs = to_json(gates)
    tx.run(steps("flows/settle")["drop gates"], (jobs,))
    tx.run(steps("flows/start")["drop edges"], {"flow_id": flow, "jobs": jobs})
    wiring = _wiring(tx, gates.values())
    for job, some in gates.items():
        wiring.add(flow, job, some)
    wiring.write(tx)
    judge(tx, gates, wiring.because)


def _wiring(tx: Transaction, gates: Iterable[Sequence[NewGate]]) -> Wiring:
    """For gates whose upstreams may have ended."""
    edges = [edge for some in gates for gate in some for edge in gate.edges]
    if not edges:
        return Wiring({}, {})
    upstreams = to_json(dict.fromkeys(edge.upstream for edge in edges))
    ended = {
        job: JobState(end) for job, end in tx.rows(steps("flows/start")["ended"], (upstreams,))
    }
    losing = {
        edge.upstream
        for edge in edges
        if edge.upstream in ended and not edge.wants & BITS[ended[edge.upstream]]
    }
    lost = {
        job: Lost(is_bad_end(ended[job], is_bad=bool(is_bad)), why_lost(name, ended[job]))
        for job, (_, name, _, is_bad) in (nodes_of(tx, losing) if losing else {}).items()
    }
    return Wiring(ended, lost)
