"""What is said about jobs that wait for what they called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from holdfast.flow.calls import CallNodes
from holdfast.flow.graph import Graph
from holdfast.flow.model import FlowId, FlowInfo
from holdfast.insights.actions import Action, Noun, Verb
from holdfast.insights.node_status import NodeStatus, statuses_of
from holdfast.insights.reasons import Reason, Who
from holdfast.job.call import FLOW_STEP
from holdfast.job.ids import JobId
from holdfast.job.record import Job
from holdfast.job.state import ENDED, JobState
from holdfast.job.step import Step
from holdfast.store.contract.store import Store

CALL_BATCH = 20
"""How many of the live jobs that were called are asked what stands in their way."""


async def about_call(store: Store, job: Job, wait: Step, flow: FlowId, now: datetime) -> Reason:
    """What a suspended job waits for, if it has called something. What stands in the way of a job
    that was called stands in the way of its caller."""
    found = await store.flows.get([flow])
    if not found:
        fact = f"it waits for {wait.name!r}, which is not started yet"
        return Reason("awaits-call", fact, Who.WORKER, "a live worker starts it in a moment")
    nodes = None
    if not wait.name.startswith(FLOW_STEP):
        nodes = CallNodes(Graph(await store.flows.graph(flow)))
    live = await _live(store, found[0], nodes)
    shown = await _one_of(store, live, now)
    fact = f"it waits for {wait.name!r}: {await _how_it_stands(store, found[0], nodes, shown)}"
    if found[0].ended:
        return Reason("awaits-call", fact, Who.WORKER, "a live worker tells it in a moment")
    cancel = Action(Noun.JOBS, Verb.CANCEL, job.id)
    if shown is not None and (obstacle := _obstacle(shown[1])) is not None:
        advice = f"{obstacle.advice}, or cancel the job"
        return Reason("awaits-call", fact, obstacle.who, advice, obstacle.action or cancel)
    advice = f"explain flow {flow} to see what that waits for, or cancel the job"
    return Reason("awaits-call", fact, Who.WORKER, advice, cancel)


async def _live(store: Store, flow: FlowInfo, called: CallNodes | None) -> list[JobId]:
    """Some of the live jobs of a call."""
    if flow.ended:
        return []
    if called is None:
        nodes = await store.flows.nodes(flow.id, 10 * CALL_BATCH)
        waiting = (one.job_id for one in nodes if one.state not in {*ENDED, JobState.BLOCKED})
    else:
        ended = await called.ended(store)
        pairs = zip(called.nodes, ended, strict=True)
        waiting = (node.job for node, end in pairs if end is None)
    return [job for job, _ in zip(waiting, range(CALL_BATCH), strict=False)]


async def _one_of(
    store: Store, live: Iterable[JobId], now: datetime
) -> tuple[JobId, NodeStatus] | None:
    """A live job that was called, and how it stands: one that cannot go on, if there is any."""
    found = list((await statuses_of(store, list(live), now)).items())
    hindered = [one for one in found if _obstacle(one[1])]
    return next(iter(hindered or found), None)


def _obstacle(status: NodeStatus) -> Reason | None:
    """What stands in the way of a job until somebody acts. A job that is suspended itself waits for
    what it asked for."""
    found = status.obstacle
    if found is None or found.code == "suspended" or found.who in (Who.WORKER, Who.TIME):
        return None
    return found


async def _how_it_stands(
    store: Store,
    flow: FlowInfo,
    called: CallNodes | None,
    shown: tuple[JobId, NodeStatus] | None,
) -> str:
    one = "" if shown is None else f"job {shown[0]} {shown[1].text}"
    if called is not None and len(called.nodes) == 1:
        return one or f"job {called.nodes[0].job} has ended"
    more = f"; {one}" if shown is not None and _obstacle(shown[1]) else ""
    if called is None:
        done = f"{flow.total - flow.open:,} of {flow.total:,} nodes are done"
        return f"flow {flow.id} is {flow.state}, {done}{more}"
    ended = Counter(one.state for one in await called.ended(store) if one is not None)
    won = ended[JobState.SUCCEEDED]
    lost = ended.total() - won
    total, may = len(called.nodes), called.may_fail
    return f"{won:,} of {total:,} jobs done, {lost:,} failed, {may:,} may fail{more}"
