"""Why a node of a flow is blocked, or ended as it did, and who can change that."""

from __future__ import annotations

from datetime import datetime

from holdfast.flow.ids import child_flow_id
from holdfast.flow.model import FlowInfo, FlowState, NodeInfo
from holdfast.flow.whole_flow import WholeFlow
from holdfast.insights.actions import Action, Noun, Verb
from holdfast.insights.causes import chain_of, chain_text, jobs_with_reasons, skipped_because_of
from holdfast.insights.gates import NAMED, awaited, gate_reason, open_gates
from holdfast.insights.node_status import NodeStatus, statuses
from holdfast.insights.reasons import DEPLOY, Reason, Who, was_unread
from holdfast.job.ids import JobId
from holdfast.job.record import Job
from holdfast.job.state import JobState
from holdfast.job.ties import Tie
from holdfast.store.contract.store import Store

AGAIN = (JobState.FAILED, JobState.EXPIRED, JobState.CANCELLED)
"""Ends after which a retry of the flow runs the node again."""


async def about_blocked(store: Store, job: Job, now: datetime) -> list[Reason]:
    """Every gate of a blocked job, and its flow if that holds it."""
    whole = await _flow_of(store, job)
    node = None if whole is None else whole.nodes.get(job.id)
    if whole is None or node is None:
        return [Reason("blocked", "it waits until somebody releases it", Who.WORKER)]
    known = await named_statuses(store, whole, [node], now)
    reasons = [
        *about_flow(whole.flow),
        *(gate_reason(whole, node, gate, known) for gate in open_gates(whole, node)),
    ]
    return reasons or [_forgotten(whole.flow, node)]


async def named_statuses(
    store: Store, whole: WholeFlow, blocked: list[NodeInfo], now: datetime
) -> dict[JobId, NodeStatus]:
    """How the nodes stand that are named when the gates of these blocked nodes are told."""
    named = {
        one.job_id: one
        for node in blocked
        for gate in open_gates(whole, node)
        for one in awaited(whole, gate)[:NAMED]
    }
    return await statuses(store, list(named.values()), now)


def about_flow(flow: FlowInfo) -> list[Reason]:
    """A flow that is paused or cancelling releases nothing, whatever its gates say."""
    by = f" ({flow.reason})" if flow.reason else ""
    match flow.state:
        case FlowState.PAUSED:
            resume = Action(Noun.FLOWS, Verb.RESUME, flow.id)
            fact = f"its flow {flow.name!r} is paused{by}"
            return [Reason("flow-paused", fact, Who.OPERATOR, "resume the flow", resume)]
        case FlowState.CANCELLING:
            fact = f"its flow {flow.name!r} is being cancelled{by}"
            return [Reason("flow-cancelling", fact, Who.WORKER, "a live worker cancels it")]
        case _:
            return []


def _forgotten(flow: FlowInfo, node: NodeInfo) -> Reason:
    """Gates and ends are changed in one step, so this is either a moment or a defect."""
    fact = f"node {node.name!r} of flow {flow.name!r} is blocked and waits for nothing"
    advice = "live workers mend it within a minute; to mend it now"
    return Reason("no-gate", fact, Who.WORKER, advice, Action(Noun.FLOWS, Verb.CORRECT, flow.id))


async def about_ended_node(store: Store, job: Job) -> tuple[list[Reason], NodeInfo | None]:
    """Why a node did not succeed, and the node with which that began if it is another one. Nothing
    for a job of no flow, and for a success."""
    if job.state is JobState.SUCCEEDED or (whole := await _flow_of(store, job)) is None:
        return [], None
    chain = chain_of(whole, job.id)
    first = chain[-1] if chain else whole.nodes.get(job.id)
    if first is None:
        return [], None
    [job] = await jobs_with_reasons(store.jobs, [job])
    fact = _ended_fact(job, chain, skipped_because_of(whole, job.id))
    return [_ended(whole.flow, first, fact)], first if chain else None


def _ended(flow: FlowInfo, first: NodeInfo, fact: str) -> Reason:
    if first.state not in AGAIN or flow.state is FlowState.CANCELLING:
        return Reason("ended", fact, Who.NOBODY)
    again = Action(Noun.FLOWS, Verb.RETRY, flow.id, value=first.name)
    advice = f"run {first.name!r} again, and what was skipped because of it"
    if was_unread(first.reason):
        advice = f"{DEPLOY} the arguments of {first.name!r}, then {advice}"
        return Reason("ended", fact, Who.DEVELOPER, advice, again)
    return Reason("ended", fact, Who.OPERATOR, advice, again)


def _ended_fact(job: Job, chain: list[NodeInfo], followers: int) -> str:
    if chain:
        return f"it was skipped {chain_text(chain)}"
    why = f": {job.reason}" if job.reason else ""
    if job.state is JobState.SKIPPED:
        return f"it skipped itself{why}"
    followed = "" if not followers else f"; {followers:,} nodes were skipped because of it"
    if followers == 1:
        followed = "; one node was skipped because of it"
    return f"it has ended as {job.state}{why}{followed}"


async def about_flow_of_parent(store: Store, job: Job) -> list[Reason]:
    """The flow that a suspended job waits for, if it has started one."""
    if not job.ties & Tie.PARENT:
        return []
    for flow in await store.flows.get([child_flow_id(job.id)]):
        done = f"{flow.total - flow.open} of {flow.total} nodes are done"
        fact = f"it waits for flow {flow.name!r} ({flow.id}): {flow.state}, {done}"
        if flow.ended:
            return [Reason("waits-for-flow", fact, Who.WORKER, "a live worker ends it in a moment")]
        advice = "explain the flow to see what it waits for, or cancel the job"
        cancel = Action(Noun.JOBS, Verb.CANCEL, job.id)
        return [Reason("waits-for-flow", fact, Who.WORKER, advice, cancel)]
    return []


async def _flow_of(store: Store, job: Job) -> WholeFlow | None:
    """The flow that the job belongs to, None if it belongs to none."""
    told = (await store.flows.inputs([job.id])).get(job.id)
    found = [] if told is None else await store.flows.get([told.flow])
    return await WholeFlow.read(store, found[0]) if found else None
