"""A job that lives as long as the flow that it started: what the end of the flow means for the job.

The job is suspended meanwhile. The transaction that ends the flow writes an errand, and whoever
does the errand ends the job. A job that is not suspended when the errand is done asks for its flow
itself: it does so when it runs again, before its handler does.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from holdfast.flow.graph import Graph
from holdfast.flow.growing import MAP
from holdfast.flow.ids import child_flow_id
from holdfast.flow.inputs import NULL_TEXT, elements_of
from holdfast.flow.model import FLOW_ENDED, FlowId, FlowInfo, FlowState, NodeInfo
from holdfast.job.ends import Cancelled, Raised, Returned
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.record import Job
from holdfast.job.sealed import require_open
from holdfast.job.state import JobState
from holdfast.job.ties import Tie
from holdfast.store.contract.store import Store

FAILED = "ChildFlowFailed"
"""The kind of error of a job whose flow has failed."""
GONE = "ChildFlowGone"
NODES_AT_ONCE = 500

WAITS_FOR_FLOW = "waits for flow"

ParentEnd = Returned | Raised | Cancelled


STRANDED_AFTER = timedelta(seconds=5)
"""An errand ends a parent within a moment. A parent that waits for longer has been forgotten."""


def waits_for(flow: FlowId) -> str:
    """Why a job is suspended that waits for its flow."""
    return f"{WAITS_FOR_FLOW} {flow}"


async def stranded(store: Store, suspended: Sequence[Job]) -> list[JobId]:
    """Those of these suspended jobs that wait for a flow that is over, or gone."""
    parents = {child_flow_id(job.id): job.id for job in suspended if _waits_for_its_flow(job)}
    if not parents:
        return []
    flows = {flow.id: flow for flow in await store.flows.get(list(parents))}
    before = await store.now() - STRANDED_AFTER
    return [job for one, job in parents.items() if _is_over(flows.get(one), before)]


def _waits_for_its_flow(job: Job) -> bool:
    """A parent may also have called tasks: what it waits for then is no flow that ends it."""
    waits = job.reason is not None and job.reason.startswith(WAITS_FOR_FLOW)
    return waits and bool(job.ties & Tie.PARENT)


def _is_over(flow: FlowInfo | None, before: datetime) -> bool:
    return flow is None or (flow.finished_at is not None and flow.finished_at < before)


async def end_of(store: Store, flow: FlowInfo) -> ParentEnd:
    """What the end of the flow means for its parent. The error names the flow and its first failed
    node, and quotes nothing: what the node said is shown by the rules of the node's own task."""
    shown = f"flow {flow.name!r} ({flow.id})"
    match flow.state:
        case FlowState.SUCCEEDED:
            return Returned(await result_of(store, flow.id))
        case FlowState.CANCELLED:
            return Cancelled(f"{shown} was cancelled")
        case _:
            failed = await first_failed(store, flow.id)
            said = "" if failed is None else f": node {failed.name!r} is {failed.state}"
            return Raised(FAILED, f"{shown} has failed{said}", final=True)


async def end_parent(store: Store, job: JobId) -> bool:
    """End a suspended job whose flow is over. False if it has to be asked again: the job runs, and
    may be about to give its slot back."""
    live = await store.jobs.live([job])
    if not live or live[0].state not in (JobState.RUNNING, JobState.SUSPENDED):
        return True
    flows = await store.flows.get([child_flow_id(job)])
    if flows and flows[0].state not in FLOW_ENDED:
        return True  # it was retried: its next end is another errand
    if live[0].state is JobState.RUNNING:
        return False
    end = await end_of(store, flows[0]) if flows else _gone(job)
    [verdict] = await store.jobs.finish([decide(live[0], end)])
    return verdict.accepted


def _gone(job: JobId) -> Raised:
    return Raised(GONE, f"flow {child_flow_id(job)} is not there any more", final=True)


async def result_of(store: Store, flow: FlowId) -> str:
    """The result of a flow that has succeeded, as JSON."""
    found = await results_of(store, flow)
    if isinstance(found, str):
        return found
    for one in found:
        require_open(one)
    return f"[{','.join(found)}]"


async def results_of(store: Store, flow: FlowId) -> str | list[str]:
    """The result of a flow that has succeeded, as JSON: that of a node, or those of the elements of
    a map, in their order."""
    graph = Graph(await store.flows.graph(flow))
    if graph.returns is None:
        return NULL_TEXT
    node = graph.nodes[graph.returns]
    result = (await _results(store, [node.job])).get(node.job)
    if node.task != MAP or result is None:
        return result or NULL_TEXT
    elements = elements_of(node.job, result)
    results = await _results(store, elements)
    return [results.get(one, NULL_TEXT) for one in elements]


async def _results(store: Store, jobs: Sequence[JobId]) -> dict[JobId, str]:
    outcomes = await store.jobs.outcomes(jobs)
    return {one.id: one.result for one in outcomes if one.result is not None}


async def first_failed(store: Store, flow: FlowId) -> NodeInfo | None:
    """The node that failed or expired before all others."""
    first: NodeInfo | None = None
    after: str | None = None
    while some := await store.flows.nodes(flow, NODES_AT_ONCE, after):
        bad = [node for node in some if node.state in (JobState.FAILED, JobState.EXPIRED)]
        found = [*bad, *([first] if first else [])]
        first = min(found, key=lambda node: str(node.finished_at), default=None)
        after = some[-1].name
    return first
