"""How live jobs are cancelled: waiting ones end, running ones are told to."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.job.ends import Cancelled
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.record import Live
from holdfast.job.state import WAITING, JobState
from holdfast.store.contract.joining import JobsWithin

CANCEL_ROUNDS = 10
"""How often a cancel reads a job again that moved between the read and the write."""


async def cancel_jobs(
    jobs: JobsWithin,
    ids: Sequence[JobId],
    reason: str | None = None,
    by: str | None = None,
    *,
    waits: bool = True,
) -> list[JobId]:
    """End waiting jobs and mark running ones, for whoever asked; returns the jobs it reached. A
    job that moves between the read and the write is read again, at most `CANCEL_ROUNDS` times.

    A job that was refused and has not moved is locked by somebody's open transaction. Who does not
    wait for it leaves it: every further try would wait for the lock as long as the first."""
    end = Cancelled(by=by) if reason is None else Cancelled(reason, by)
    done: list[JobId] = []
    left = list(ids)
    before: list[Live] = []
    for _round in range(CANCEL_ROUNDS):
        live = await jobs.live(left) if left else []
        if not waits:
            live = [job for job in live if job not in before]
        if not live:
            break
        running = [job.id for job in live if job.state is JobState.RUNNING]
        marked = await jobs.request_cancel(running, by, reason) if running else []
        waiting = [job for job in live if job.state in WAITING]
        reached = {*marked, *await _end_waiting(jobs, waiting, end)}
        done += reached
        before = [job for job in live if job.id not in reached]
        left = [job.id for job in before]
    return done


async def _end_waiting(jobs: JobsWithin, waiting: Sequence[Live], end: Cancelled) -> list[JobId]:
    if not waiting:
        return []
    verdicts = await jobs.finish([decide(job, end) for job in waiting])
    return [verdict.id for verdict in verdicts if verdict.accepted]
