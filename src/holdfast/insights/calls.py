"""What is said about jobs that wait for what they called."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from holdfast.flow.calls import CallNodes
from holdfast.flow.graph import Graph
from holdfast.flow.model import FlowId, FlowInfo
from holdfast.insights.actions import Action, Noun, Verb
from holdfast.insights.node_status import statuses_of
from holdfast.insights.reasons import Reason, Who
from holdfast.job.call import FLOW_STEP
from holdfast.job.record import Job
from holdfast.job.state import JobState
from holdfast.job.step import Step
from holdfast.store.contract.store import Store


async def about_call(store: Store, job: Job, wait: Step, flow: FlowId, now: datetime) -> Reason:
    """What a suspended job waits for, if it has called something."""
    found = await store.flows.get([flow])
    if not found:
        fact = f"it waits for {wait.name!r}, which is not started yet"
        return Reason("awaits-call", fact, Who.WORKER, "a live worker starts it in a moment")
    fact = f"it waits for {wait.name!r}: {await _how_it_stands(store, wait, found[0], now)}"
    if found[0].ended:
        return Reason("awaits-call", fact, Who.WORKER, "a live worker tells it in a moment")
    advice = f"explain flow {flow} to see what that waits for, or cancel the job"
    return Reason("awaits-call", fact, Who.WORKER, advice, Action(Noun.JOBS, Verb.CANCEL, job.id))


async def _how_it_stands(store: Store, wait: Step, flow: FlowInfo, now: datetime) -> str:
    if wait.name.startswith(FLOW_STEP):
        done = f"{flow.total - flow.open:,} of {flow.total:,} nodes are done"
        return f"flow {flow.id} is {flow.state}, {done}"
    called = CallNodes(Graph(await store.flows.graph(flow.id)))
    if len(called.nodes) == 1:
        job = called.nodes[0].job
        status = (await statuses_of(store, [job], now)).get(job)
        return f"job {job} " + ("is gone" if status is None else status.text)
    ended = Counter(one.state for one in await called.ended(store) if one is not None)
    won = ended[JobState.SUCCEEDED]
    lost = ended.total() - won
    return (
        f"{won:,} of {len(called.nodes):,} jobs done, {lost:,} failed, {called.may_fail:,} may fail"
    )
