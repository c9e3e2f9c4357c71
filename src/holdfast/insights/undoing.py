"""What is said of jobs and flows that have ended badly and are undone."""

from __future__ import annotations

from holdfast.flow.ids import flow_undo_id, undo_flow_id
from holdfast.flow.model import FlowId
from holdfast.insights.actions import Action, Noun, Verb
from holdfast.insights.reasons import Reason, Who
from holdfast.job.record import Job
from holdfast.job.state import UNDONE
from holdfast.job.ties import Tie
from holdfast.store.contract.store import Store


async def about_undo_of_job(store: Store, job: Job) -> list[Reason]:
    """How far the undoing of its steps is; nothing if it has none to undo."""
    if job.state not in UNDONE or not job.ties & Tie.UNDO:
        return []
    steps = (await store.steps.load([job.id])).get(job.id, [])
    if not any(step.can_be_undone for step in steps):
        return []
    why = f": {job.reason}" if job.reason else ""
    return [await _about(store, undo_flow_id(job.id), f"it has ended as {job.state}{why}", "steps")]


async def about_undo_of_flow(store: Store, flow: FlowId) -> list[Reason]:
    """The same for the nodes of a flow."""
    undo = flow_undo_id(flow)
    if not await store.flows.get([undo]):
        return []
    return [await _about(store, undo, "it has ended badly", "nodes")]


async def _about(store: Store, undo: FlowId, ended: str, what: str) -> Reason:
    for flow in await store.flows.get([undo]):
        done = f"{flow.total - flow.open:,} of {flow.total:,} done"
        fact = f"{ended}; its {what} are undone by flow {flow.id}: {flow.state}, {done}"
        if not flow.failed:
            return Reason("undone", fact, Who.WORKER if not flow.ended else Who.NOBODY)
        again = Action(Noun.FLOWS, Verb.RETRY, flow.id)
        return Reason("undone", fact, Who.OPERATOR, "run what failed to be undone again", again)
    fact = f"{ended}; its {what} are to be undone"
    return Reason("undone", fact, Who.WORKER, "a live worker begins in a moment")
