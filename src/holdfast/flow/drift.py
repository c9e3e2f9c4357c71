"""What the counts of a flow should be, made from its graph and the states of its nodes. Pure.

The counts are right by construction: each is changed in the transaction that ends a node. This is
the net below that. It must find nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from holdfast.flow.graph import Graph
from holdfast.flow.model import (
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
