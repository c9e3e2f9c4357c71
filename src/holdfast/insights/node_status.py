"""How a live node stands, in a few words: where it runs, when it is tried again, who is ahead."""

from __future__ import annotations

from collections.abc import Container, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from holdfast.fleet.reading import notes
from holdfast.flow.model import NodeInfo
from holdfast.insights.misfits import about_misfit
from holdfast.insights.reasons import (
    Reason,
    Who,
    about_running,
    about_suspended,
    obstacles,
    span_text,
)
from holdfast.insights.unproven import about_unproven
from holdfast.job.ids import JobId
from holdfast.job.outcome import LEFT
from holdfast.job.record import Job
from holdfast.job.state import ENDED, JobState
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import WorkerInfo

MAY_BE_LEFT = (JobState.READY, JobState.SCHEDULED)


class NodeStatus(msgspec.Struct, frozen=True):
    """What a node does now, and who has to do something so that it goes on. `obstacle` is what
    stands in its way, if anything does that is not usual."""

    text: str
    who: Who
    obstacle: Reason | None = None


async def statuses(
    store: Store, nodes: Sequence[NodeInfo], now: datetime
) -> dict[JobId, NodeStatus]:
    """How these nodes stand."""
    return await statuses_of(store, [node.job_id for node in nodes], now)


async def statuses_of(store: Store, ids: Sequence[JobId], now: datetime) -> dict[JobId, NodeStatus]:
    """How these jobs stand. It asks the store several times for each job: hand it few."""
    if not ids:
        return {}
    jobs = await store.jobs.get(ids)
    left = await notes(store, [job.id for job in jobs if job.state in MAY_BE_LEFT])
    reader = _Reader(store, now, await store.workers.find(), left)
    return {job.id: await reader.status(job) for job in jobs}


class _Reader:
    """Reads what many nodes have in common once."""

    def __init__(
        self, store: Store, now: datetime, workers: list[WorkerInfo], left: Container[JobId]
    ) -> None:
        self._store = store
        self._now = now
        self._workers = workers
        self._left = left
        self._obstacles: dict[tuple[str, str], list[Reason]] = {}

    async def status(self, job: Job) -> NodeStatus:
        for reason in await self._about_misfit(job):
            return NodeStatus(f"is left: {reason.fact}", reason.who, reason)
        match job.state:
            case JobState.RUNNING:
                return self._running(job)
            case JobState.SCHEDULED:
                return self._scheduled(job)
            case JobState.READY:
                return await self._ready(job)
            case JobState.SUSPENDED:
                held = await about_unproven(self._store, job, self._workers, self._now)
                [reason] = held or about_suspended(job, self._now)
                return NodeStatus(f"is suspended: {reason.fact}", reason.who, reason)
            case state if state in ENDED:
                return NodeStatus(f"has ended as {state}", Who.NOBODY)
            case state:
                return NodeStatus(f"is {state} itself", Who.WORKER)

    async def _about_misfit(self, job: Job) -> list[Reason]:
        """What does not fit may quote a secret, and here nobody asks for the rules of its task. It
        is shown with the job itself."""
        if job.id not in self._left:
            return []
        reason = LEFT if (job.reason or "").startswith(LEFT) else None
        return await about_misfit(self._store, replace(job, reason=reason), self._now)

    def _running(self, job: Job) -> NodeStatus:
        for reason in about_running(job, self._workers):
            return NodeStatus(f"is running: {reason.fact}", reason.who, reason)
        on = next((one.name for one in self._workers if one.id == job.worker_id), job.worker_id)
        since = "" if job.claimed_at is None else f" since {span_text(self._now, job.claimed_at)}"
        again = f" (attempt {job.attempts + 1}{_most(job)})" if job.attempts else ""
        return NodeStatus(f"runs on {on}{since}{again}", Who.WORKER)

    def _scheduled(self, job: Job) -> NodeStatus:
        if job.due_at is None or job.due_at <= self._now:
            return NodeStatus("is due, and not yet promoted", Who.WORKER)
        due = span_text(job.due_at, self._now)
        if not job.attempts:
            return NodeStatus(f"is due in {due}", Who.TIME)
        spent = f"{job.attempts}{_most(job)} attempts"
        return NodeStatus(f"retries in {due} ({spent})", Who.TIME)

    async def _ready(self, job: Job) -> NodeStatus:
        ahead = await self._store.jobs.ahead(job.id)
        line = f"ready, {ahead:,} ahead of it" if ahead else "ready, next in line"
        line = f"{line} in queue {job.queue!r}"
        known = self._obstacles.get((job.queue, job.task))
        if known is None:
            known = self._obstacles[job.queue, job.task] = await obstacles(self._store, job)
        if not known:
            return NodeStatus(f"is {line}", Who.WORKER)
        return NodeStatus(f"is {line}: {known[0].fact}", known[0].who, known[0])


def _most(job: Job) -> str:
    known = job.unreadable is None and job.max_attempts is not None
    return f" of {job.max_attempts}" if known else ""
