"""Why a job is not running now, and who can change that.

`explain` reads everything that stands between a job and its end. It names each obstacle together
with who can remove it: time, a worker, an operator or a developer.
"""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

import msgspec

from holdfast.flow.model import NodeInfo
from holdfast.insights.limits import about_limits
from holdfast.insights.misfits import about_misfit
from holdfast.insights.nodes import about_blocked, about_ended_node, about_flow_of_parent
from holdfast.insights.reasons import (
    Reason,
    about_deadline,
    about_ended,
    about_policy,
    about_ready,
    about_running,
    about_scheduled,
    about_suspended,
    closed_ways,
)
from holdfast.insights.signals import about_signals
from holdfast.insights.undoing import about_undo_of_job
from holdfast.job.record import Job
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store


class Explanation(msgspec.Struct, frozen=True):
    """A job and every reason why it is not running now. A job that runs as it should has none. Of a
    node that was skipped, `cause` is the node with which that began."""

    job: Job
    reasons: tuple[Reason, ...]
    cause: NodeInfo | None = None


async def explain(store: Store, job: Job) -> Explanation:
    """Every reason why this job, which was just read, is not running."""
    now = await store.now()
    reasons = [*about_deadline(job, now), *about_policy(job)]
    cause: NodeInfo | None = None
    if job.state in (JobState.READY, JobState.SCHEDULED):
        reasons += await about_misfit(store, job, now)
    match job.state:
        case JobState.READY:
            waits_for = await about_limits(store, job, now)
            besides = closed_ways(store, job) if waits_for else about_ready(store, job)
            reasons += [*waits_for, *await besides]
        case JobState.SCHEDULED:
            reasons += about_scheduled(job, now, await store.workers.find())
        case JobState.SUSPENDED:
            reasons += await _about_suspended(store, job, now)
        case JobState.RUNNING:
            reasons += about_running(job, await store.workers.find())
        case JobState.BLOCKED:
            reasons += await about_blocked(store, job, now)
        case (
            JobState.SUCCEEDED
            | JobState.FAILED
            | JobState.CANCELLED
            | JobState.EXPIRED
            | JobState.SKIPPED
        ):
            of_node, cause = await about_ended_node(store, job)
            undone = await about_undo_of_job(store, job)
            reasons += undone or of_node or [about_ended(job)]
        case _:
            assert_never(job.state)
    return Explanation(job, tuple(reasons), cause)


async def _about_suspended(store: Store, job: Job, now: datetime) -> list[Reason]:
    return (
        await about_flow_of_parent(store, job)
        or await about_signals(store, job, now)
        or about_suspended(job, now)
    )
