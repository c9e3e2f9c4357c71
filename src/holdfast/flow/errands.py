"""Does what a write to a flow owes: cancels of losers and of a flow's nodes, cut-off cascades,
what is to be undone, and what the end of a flow means for its parent.

An errand is a row that the deciding transaction wrote. Whoever hears of it first does it; a crash
leaves it to the next one. Every change is guarded by the fences of the jobs, so two that do the
same errand do no harm.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import assert_never

from holdfast.background.cancelling import cancel_jobs
from holdfast.flow.calls import tell_of_end
from holdfast.flow.graph import Graph
from holdfast.flow.growing import MAP
from holdfast.flow.ids import child_flow_id, watcher_id
from holdfast.flow.losers import losers_of, skipped_behind, winners_of
from holdfast.flow.model import CloseWhat, Errand, ErrandKind, FlowId, NodeInfo
from holdfast.flow.parents import end_parent
from holdfast.flow.undoing import undo_nodes, undo_steps
from holdfast.job.ids import JobId
from holdfast.job.state import LIVE, WAITING, JobState
from holdfast.store.contract.store import Store

NODES_AT_ONCE = 500
CLOSED = "its flow was cancelled"

MEANT = {
    CloseWhat.BLOCKED: frozenset({JobState.BLOCKED}),
    CloseWhat.WAITING: WAITING,
    CloseWhat.ALL: LIVE,
}
"""The states of the nodes that a cancel of a flow means."""


async def do_errand(store: Store, errand: Errand) -> bool:
    """Do it, and forget it. False if it cannot be done yet, and is kept."""
    if not await _do(store, errand):
        return False
    await store.flows.done([errand.id])
    return True


async def _do(store: Store, errand: Errand) -> bool:
    match errand.kind:
        case ErrandKind.CLOSE:
            return await _close(store, errand.flow, errand.what or CloseWhat.ALL)
        case ErrandKind.LOSERS:
            return await _cancel_losers(store, errand.flow, errand.job)
        case ErrandKind.SETTLE:
            await store.flows.settle([errand.flow])
        case ErrandKind.PARENT:
            return errand.job is None or await _tell_parent(store, errand.flow, errand.job)
        case ErrandKind.ORPHAN:
            if errand.job is None or not await _is_left_alone(store, errand.flow, errand.job):
                await store.flows.close([errand.flow], CloseWhat.ALL)
        case ErrandKind.UNDO:
            if errand.job is not None:
                await undo_steps(store, errand.job)
        case _:
            assert_never(errand.kind)
    return True


async def _tell_parent(store: Store, flow: FlowId, job: JobId) -> bool:
    """A job ends with the flow that is its whole life, and goes on after a flow that it called. The
    nodes of a flow that has ended badly are undone."""
    await undo_nodes(store, flow)
    if job == watcher_id(flow):
        return True
    if flow == child_flow_id(job):
        return await end_parent(store, job)
    await tell_of_end(store, flow, job)
    return True


async def _is_left_alone(store: Store, flow: FlowId, job: JobId) -> bool:
    """A job that has succeeded had what it called for: what it let run goes on."""
    if flow == child_flow_id(job):
        return False
    return any(one.state is JobState.SUCCEEDED for one in await store.jobs.outcomes([job]))


async def _close(store: Store, flow: FlowId, what: CloseWhat) -> bool:
    """The nodes are told who cancelled them: the reason of a flow says it. Answers whether all
    were reached."""
    reason = "cancelled with what was blocked in its flow"
    if what is not CloseWhat.BLOCKED:
        said = [info.reason for info in await store.flows.get([flow]) if info.reason]
        reason = f"its flow was {said[0]}" if said else CLOSED
    reached = True
    async for nodes in pages_of(store, flow):
        meant = [node.job_id for node in nodes if node.state in MEANT[what]]
        reached = await _cancel(store, meant, reason) and reached
    return reached


async def _cancel_losers(store: Store, flow: FlowId, met: JobId | None) -> bool:
    """A map may make elements until it ends, also while its graph is read here. They are looked for
    again, until it had ended before anything was read."""
    if met is None:
        return True
    states = {node.job_id: node.state async for some in pages_of(store, flow) for node in some}
    graph = Graph(await store.flows.graph(flow))
    won = " and ".join(repr(graph.names.get(one, one)) for one in winners_of(graph, met, states))
    who = graph.names.get(met, met)
    reason = f"lost to {won}: {who!r} needs it no more"
    lost = losers_of(graph, met, states)
    if spared := skipped_behind(graph, lost, states):
        await store.flows.let_go(flow, sorted(spared))
    reached = await _cancel(store, lost, reason)
    return reached and not any(graph.nodes[graph.names[job]].task == MAP for job in lost)


async def _cancel(store: Store, jobs: Collection[JobId], reason: str) -> bool:
    """Whether each of these jobs has ended or was told to end. A node whose flow somebody's open
    transaction has locked may be refused where it is: then the cancel is still owed."""
    left = sorted(jobs)
    missed: list[JobId] = []
    for first in range(0, len(left), NODES_AT_ONCE):
        some = left[first : first + NODES_AT_ONCE]
        reached = set(await cancel_jobs(store.jobs, some, reason, waits=False))
        missed += [job for job in some if job not in reached]
    live = await store.jobs.live(missed) if missed else []
    return all(job.cancel_requested for job in live)


async def pages_of(store: Store, flow: FlowId) -> AsyncIterator[list[NodeInfo]]:
    """All nodes of a flow, some hundred at a time."""
    after: str | None = None
    while some := await store.flows.nodes(flow, NODES_AT_ONCE, after):
        yield some
        after = some[-1].name
