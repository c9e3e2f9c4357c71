"""What the counts of a flow should be, made from its graph and the states of its nodes. Pure.

The counts are right by construction: each is changed in the transaction that ends a node. This is
the net below that. It must find nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from holdfast.flow.graph import Graph, cycle_in
from holdfast.flow.model import (
    ANY_END,
    BITS,
    FLOW_ENDED,
    FlowInfo,
    FlowState,
    GateInfo,
    Mending,
    NewGate,
    NodeInfo,
)
from holdfast.job.ids import JobId
from holdfast.job.state import ENDED, LIVE, JobState


def drift_of(flow: FlowInfo, graph: Graph, nodes: Collection[NodeInfo]) -> list[str]:
    """What is wrong with the flow, in words; empty if nothing is."""
    live = sum(node.state in LIVE for node in nodes)
    wrong: list[str] = []
    if live != flow.open:
        wrong.append(f"{live} nodes are live, and {flow.open} are counted")
    if live and flow.state in FLOW_ENDED:
        wrong.append(f"the flow is {flow.state}, and {live} nodes are live")
    if not live and flow.state not in FLOW_ENDED:
        wrong.append(f"the flow is {flow.state}, and no node is live")
    states = {node.job_id: node.state for node in nodes}
    for node in nodes:
        if node.state is JobState.BLOCKED:
            wrong += _of_node(flow, node, graph.gates_of(node.job_id), states)
    return wrong


def mending_of(flow: FlowInfo, graph: Graph, nodes: Collection[NodeInfo]) -> Mending:
    """The gates that the blocked nodes should have."""
    blocked = [node.job_id for node in nodes if node.state is JobState.BLOCKED]
    gates = {job: graph.gates_of(job) for job in blocked}
    return Mending(flow=flow.id, epoch=flow.epoch, gates=gates)


def _of_node(
    flow: FlowInfo, node: NodeInfo, gates: tuple[NewGate, ...], states: dict[JobId, JobState]
) -> list[str]:
    expected = [counted(gate, states) for gate in gates]
    waiting = [one for one in expected if one[0] < one[3]]
    found = sorted((gate.won, gate.lost, gate.total, gate.need) for gate in node.gates)
    wrong: list[str] = []
    if flow.state is FlowState.RUNNING:
        if found != sorted(waiting):
            wrong.append(f"node {node.name!r} has other gates than its graph says")
        if not waiting or any(lost > total - need for _, lost, total, need in waiting):
            wrong.append(f"node {node.name!r} is still blocked")
    wrong += [
        f"node {node.name!r} has an edge to a node that has ended"
        for gate in node.gates
        if _has_stale_edge(gate, states)
    ]
    return wrong


def counted(gate: NewGate, states: Mapping[JobId, JobState]) -> tuple[int, int, int, int]:
    """Won, lost, total and needed edges of a gate, by the ends of its upstreams."""
    ended = [(edge, states[edge.upstream]) for edge in gate.edges if edge.upstream in states]
    won = sum(bool(edge.wants & BITS[state]) for edge, state in ended if state in ENDED)
    lost = sum(not edge.wants & BITS[state] for edge, state in ended if state in ENDED)
    return won, lost, gate.total, gate.need


def _has_stale_edge(gate: GateInfo, states: dict[JobId, JobState]) -> bool:
    return any(states.get(edge.upstream) in ENDED for edge in gate.edges)


def circle_of(nodes: Collection[NodeInfo]) -> list[str]:
    """The names of blocked nodes that wait for each other and can never begin, of which the first
    is the last too; empty if there are none. Their counts are right: nothing counts them on.

    How a node may end follows from how those that it waits for may end. A node that is not blocked
    may end anyhow, and so may one whose gates may all be met. One of whose gates may become
    impossible can be skipped. This is followed until nothing more is possible for anybody."""
    waiting = {node.job_id: node for node in nodes if node.state is JobState.BLOCKED}
    tallies = {job: [_Tally(gate) for gate in node.gates] for job, node in waiting.items()}
    behind: dict[JobId, list[tuple[JobId, _Tally, int]]] = {}
    for job, some in tallies.items():
        for tally in some:
            for edge in tally.gate.edges:
                behind.setdefault(edge.upstream, []).append((job, tally, edge.wants))
    ends = {job: _may_end(some) for job, some in tallies.items()}
    ends |= {one.job_id: BITS.get(one.state, ANY_END) for one in nodes if one.job_id not in ends}
    followed: dict[JobId, int] = {}
    ahead = list(ends)
    while ahead:
        upstream = ahead.pop()
        before, now = followed.get(upstream, 0), ends[upstream]
        followed[upstream] = now
        for job, tally, wants in behind.get(upstream, ()) if now != before else ():
            tally.may_win += bool(now & wants) - bool(before & wants)
            tally.may_lose += bool(now & ~wants) - bool(before & ~wants)
            if (may_end := _may_end(tallies[job])) != ends[job]:
                ends[job] = may_end
                ahead.append(job)
    stuck = {job: node.name for job, node in waiting.items() if ends[job] != ANY_END}
    edges = {
        job: [edge.upstream for gate in waiting[job].gates for edge in gate.edges] for job in stuck
    }
    return cycle_in(
        {stuck[job]: [stuck[one] for one in some if one in stuck] for job, some in edges.items()}
    )


class _Tally:
    """A gate, and how many of its undecided edges may be won and lost."""

    __slots__ = ("gate", "may_lose", "may_win")

    def __init__(self, gate: GateInfo) -> None:
        self.gate, self.may_win, self.may_lose = gate, 0, 0


def _may_end(tallies: Collection[_Tally]) -> int:
    """How a blocked node with these gates may end, as the sum of the bits of these ends."""
    if all(one.gate.won + one.may_win >= one.gate.need for one in tallies):
        return ANY_END
    lost = any(one.gate.lost + one.may_lose > one.gate.total - one.gate.need for one in tallies)
    return BITS[JobState.SKIPPED] if lost else 0
