"""Why a flow, or a node of one, is not further: every gate, and who can open it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.flow.errands import pages_of
from holdfast.flow.graph import Graph
from holdfast.flow.model import (
    ANY_END,
    FAILURE,
    FlowInfo,
    FlowState,
    GateInfo,
    NewEdge,
    NodeInfo,
    child_flow_id,
)
from holdfast.job.ids import JobId
from holdfast.job.record import Job
from holdfast.job.state import LIVE, JobState
from holdfast.job.ties import Tie
from holdfast.store.contract.store import Store

CAUSES_SHOWN = 5
NODES_SHOWN = 20
"""So many nodes of a kind are named; the others are counted."""


class NodeReason(msgspec.Struct, frozen=True):
    """A live node, and what it waits for in words."""

    name: str
    job_id: JobId
    state: JobState
    why: str


class FlowExplanation(msgspec.Struct, frozen=True):
    """A flow, the nodes that can go on by themselves (`frontier`), those that wait for them, the
    nodes that failed first, and the longest path that is left, by the names of its nodes."""

    flow: FlowInfo
    frontier: tuple[NodeReason, ...]
    waiting: tuple[NodeReason, ...]
    causes: tuple[NodeInfo, ...]
    longest_path: tuple[str, ...]
    left_out: int = 0


async def explain_flow(store: Store, flow: FlowInfo) -> FlowExplanation:
    nodes = [node async for some in pages_of(store, flow.id) for node in some]
    graph = Graph(await store.flows.graph(flow.id))
    by_id = {node.job_id: node for node in nodes}
    live = [node for node in nodes if node.state in LIVE]
    blocked = [node for node in live if node.state is JobState.BLOCKED]
    others = [node for node in live if node.state is not JobState.BLOCKED]
    shown = await _jobs(store, others[:NODES_SHOWN])
    return FlowExplanation(
        flow,
        tuple(
            NodeReason(node.name, node.job_id, node.state, _standing(shown.get(node.job_id), node))
            for node in others[:NODES_SHOWN]
        ),
        tuple(
            NodeReason(node.name, node.job_id, node.state, gates_text(flow.state, node, by_id))
            for node in blocked[:NODES_SHOWN]
        ),
        tuple(_causes(nodes)),
        tuple(longest_path(graph, by_id)),
        max(0, len(others) - NODES_SHOWN) + max(0, len(blocked) - NODES_SHOWN),
    )


async def about_node(store: Store, job: Job) -> str | None:
    """What a blocked job waits for, None if it belongs to no flow."""
    told = (await store.flows.inputs([job.id])).get(job.id)
    if told is None:
        return None
    nodes = [node async for some in pages_of(store, told.flow) for node in some]
    by_id = {node.job_id: node for node in nodes}
    text = gates_text(told.flow_state, by_id[job.id], by_id) if job.id in by_id else ""
    return f"node {told.name!r} of flow {told.flow_name!r} {text}"


async def child_of(store: Store, job: Job) -> FlowInfo | None:
    """The flow that the job has started as its child."""
    if not job.ties & Tie.PARENT:
        return None
    return next(iter(await store.flows.get([child_flow_id(job.id)])), None)


def gates_text(flow: FlowState, node: NodeInfo, nodes: Mapping[JobId, NodeInfo]) -> str:
    """What the gates of a blocked node still want."""
    if flow is FlowState.PAUSED and not any(gate.won < gate.need for gate in node.gates):
        return "waits until its flow is resumed"
    if flow is FlowState.CANCELLING:
        return "is about to be cancelled with its flow"
    return "; ".join(_gate_text(gate, nodes) for gate in node.gates) or "waits for nothing"


def _gate_text(gate: GateInfo, nodes: Mapping[JobId, NodeInfo]) -> str:
    left = [_edge_text(edge, nodes.get(edge.upstream)) for edge in gate.edges]
    shown = " · ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "")
    if gate.need == gate.total:
        kind = f"waits for {len(left)} of {gate.total}"
    else:
        kind = f"waits for {gate.need - gate.won} more of {gate.total}"
    spare = gate.total - gate.need - gate.lost
    last = "; if one of them fails it is skipped" if gate.lost and not spare else ""
    return f"{kind}: {shown}{last}"


def _edge_text(edge: NewEdge, node: NodeInfo | None) -> str:
    if node is None:
        return f"job {edge.upstream}, which is gone"
    how = {FAILURE: " to fail", ANY_END: " to end"}.get(edge.wants, "")
    return f"{node.name!r}{how} ({_state_text(node)})"


def _state_text(node: NodeInfo) -> str:
    tries = f", {node.attempts} attempts spent" if node.attempts else ""
    return f"{node.state}{tries}"


async def _jobs(store: Store, nodes: Sequence[NodeInfo]) -> dict[JobId, Job]:
    ids = [node.job_id for node in nodes]
    return {job.id: job for job in await store.jobs.get(ids)} if ids else {}


def _standing(job: Job | None, node: NodeInfo) -> str:
    if job is None:
        return str(node.state)
    match job.state:
        case JobState.RUNNING:
            return f"runs since {job.claimed_at:%H:%M:%S}, attempt {job.attempts + 1}"
        case JobState.SCHEDULED:
            return f"due at {job.due_at:%H:%M:%S} ({job.reason or 'later'})"
        case JobState.READY:
            return f"ready in queue {job.queue!r}"
        case _:
            return str(job.state)


def _causes(nodes: Sequence[NodeInfo]) -> list[NodeInfo]:
    bad = [node for node in nodes if node.state in (JobState.FAILED, JobState.EXPIRED)]
    return sorted(bad, key=lambda node: str(node.finished_at))[:CAUSES_SHOWN]


def longest_path(graph: Graph, nodes: Mapping[JobId, NodeInfo]) -> list[str]:
    """The longest chain of live nodes that have to end one after the other."""
    live = {job for job, node in nodes.items() if node.state in LIVE}
    waits = {job: graph.upstreams(job) & live for job in live}
    waiting: dict[JobId, list[JobId]] = {job: [] for job in live}
    for job, needed in waits.items():
        for one in needed:
            waiting[one].append(job)
    left = {job: len(needed) for job, needed in waits.items()}
    best: dict[JobId, tuple[int, JobId | None]] = dict.fromkeys(live, (1, None))
    free = [job for job, count in left.items() if not count]
    while free:
        job = free.pop()
        for other in waiting[job]:
            best[other] = max(best[other], (best[job][0] + 1, job), key=lambda one: one[0])
            left[other] -= 1
            if not left[other]:
                free.append(other)
    last: JobId | None = max(best, key=lambda one: best[one][0], default=None)
    path: list[str] = []
    while last is not None:
        path.append(nodes[last].name)
        last = best[last][1]
    return path[::-1]
