"""Why a flow is not further: what can go on, what the others wait for, and what failed first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from holdfast.flow.graph import Graph
from holdfast.flow.model import FlowInfo, NodeInfo
from holdfast.flow.whole_flow import WholeFlow
from holdfast.insights.causes import nodes_with_reasons
from holdfast.insights.gates import gate_text, open_gates
from holdfast.insights.node_status import statuses
from holdfast.insights.nodes import AGAIN, about_flow, named_statuses
from holdfast.insights.reasons import Reason
from holdfast.insights.undoing import about_undo_of_flow
from holdfast.job.ids import JobId
from holdfast.job.state import LIVE, SOONEST, JobState
from holdfast.store.contract.store import Store

CAUSES_SHOWN = 5
FRONTIER_SHOWN = 20
WAITING_SHOWN = 10
"""So many nodes of a kind are named; the others are counted."""


class NodeReason(msgspec.Struct, frozen=True):
    """A live node, and what it waits for in words."""

    name: str
    job_id: JobId
    state: JobState
    why: str


class FlowExplanation(msgspec.Struct, frozen=True):
    """A flow, what holds it as a whole, the nodes that can go on by themselves (`frontier`), those
    that wait for them, the nodes that ended badly first, how many were skipped, and the longest
    path that is left, by the names of its nodes. `left_out`: live nodes that are not named, by
    state."""

    flow: FlowInfo
    held: tuple[Reason, ...]
    frontier: tuple[NodeReason, ...]
    waiting: tuple[NodeReason, ...]
    causes: tuple[NodeInfo, ...]
    skipped: int
    longest_path: tuple[str, ...]
    left_out: dict[JobState, int]


async def explain_flow(store: Store, flow: FlowInfo) -> FlowExplanation:
    whole = await WholeFlow.read(store, flow)
    live = [node for node in whole.nodes.values() if node.state in LIVE]
    blocked = sorted((n for n in live if n.state is JobState.BLOCKED), key=_nearest)
    others = sorted((n for n in live if n.state is not JobState.BLOCKED), key=_soonest)
    frontier, waiting = others[:FRONTIER_SHOWN], blocked[:WAITING_SHOWN]
    left_out = Counter(n.state for n in (*others[FRONTIER_SHOWN:], *blocked[WAITING_SHOWN:]))
    return FlowExplanation(
        flow,
        (*about_flow(flow), *await about_undo_of_flow(store, flow.id)),
        await _frontier(store, frontier),
        await _waiting(store, whole, waiting),
        await _causes(store, list(whole.nodes.values())),
        sum(node.state is JobState.SKIPPED for node in whole.nodes.values()),
        tuple(longest_path(whole.graph, whole.nodes)),
        dict(left_out),
    )


def _soonest(node: NodeInfo) -> tuple[int, str]:
    return SOONEST.index(node.state), node.name


def _nearest(node: NodeInfo) -> tuple[int, str]:
    """Nodes that wait for few others are released first."""
    return sum(len(gate.edges) for gate in node.gates), node.name


async def _frontier(store: Store, nodes: Sequence[NodeInfo]) -> tuple[NodeReason, ...]:
    known = await statuses(store, nodes, await store.now())
    return tuple(
        NodeReason(
            node.name,
            node.job_id,
            node.state,
            known[node.job_id].text if node.job_id in known else f"is {node.state}",
        )
        for node in nodes
    )


async def _waiting(store: Store, whole: WholeFlow, nodes: list[NodeInfo]) -> tuple[NodeReason, ...]:
    known = await named_statuses(store, whole, nodes, await store.now())
    texts = [
        "; ".join(gate_text(whole, node, gate, known) for gate in open_gates(whole, node))
        for node in nodes
    ]
    return tuple(
        NodeReason(node.name, node.job_id, node.state, text or "waits for its flow alone")
        for node, text in zip(nodes, texts, strict=True)
    )


async def _causes(store: Store, nodes: Sequence[NodeInfo]) -> tuple[NodeInfo, ...]:
    """The nodes that ended badly, the first of them first. Losers and what a cancel of the flow
    ended come last, because other nodes or people decided that."""
    bad = [node for node in nodes if node.state in AGAIN]
    order = sorted(bad, key=lambda one: (one.state is JobState.CANCELLED, str(one.finished_at)))
    return tuple(await nodes_with_reasons(store.jobs, order[:CAUSES_SHOWN]))


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
