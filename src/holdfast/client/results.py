"""Waiting for the results of jobs, and what a caller gets of a job that has none."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from holdfast.client.waiting import EndWaiter
from holdfast.errors import (
    JobCancelled,
    JobExpired,
    JobFailed,
    JobNotSucceeded,
    JobSkipped,
    ResultTimeout,
    StoreUnavailable,
    UnknownJob,
)
from holdfast.job.ids import JobId
from holdfast.job.record import Job
from holdfast.job.sealed import shown
from holdfast.job.state import LIVE, JobState
from holdfast.store.contract.jobs import Jobs
from holdfast.store.contract.records import Outcome

SINGLE_READ_SECONDS = 1.0
"""How long a wait with a timeout of 0 may take: it reads the job once."""
TRUST_SECONDS, LONGEST_TRUST_SECONDS = 1.0, 30.0
"""How long a job without an outcome is believed to exist before the poller checks it again. The
time grows with how long such a check takes."""
CHECK_FACTOR = 100


class _Seen(msgspec.Struct):
    """The last state of a job that was read, and when to check again whether the job exists."""

    state: JobState
    check_at: float


class ResultWaiter(EndWaiter[JobId, Outcome]):
    """Answers `wait(id)` for any number of jobs with one polling task."""

    def __init__(self, jobs: Jobs) -> None:
        super().__init__()
        self._jobs = jobs
        self._seen: dict[JobId, _Seen] = {}

    async def wait(self, job_id: JobId, timeout: float | None) -> Outcome:
        """Wait for the job's outcome. Raises `UnknownJob` if the store does not hold the job (any
        more), `ResultTimeout` when the time is up. An outage of the store is waited out. With a
        timeout of 0 the job is read once."""
        if timeout == 0:
            return await self._read_once(job_id)
        return await self.answer(job_id, timeout)

    def too_late(self, key: JobId, seconds: float) -> ResultTimeout:
        seen = self._seen.get(key)
        return ResultTimeout(key, seconds, None if seen is None else seen.state)

    def forget(self, key: JobId) -> None:
        self._seen.pop(key, None)

    async def _read_once(self, job_id: JobId) -> Outcome:
        try:
            async with asyncio.timeout(SINGLE_READ_SECONDS):
                found = await self._jobs.get([job_id])
        except (TimeoutError, StoreUnavailable):
            raise ResultTimeout(job_id, 0.0, None) from None
        if not found:
            raise UnknownJob(job_id)
        [job] = found
        if not job.ended:
            raise ResultTimeout(job_id, 0.0, job.state)
        return Outcome(job.id, job.state, job.result_json, job.reason)

    async def ask(self, ids: list[JobId]) -> None:
        left = dict.fromkeys(ids)
        for outcome in await self._jobs.outcomes(ids):
            del left[outcome.id]
            self.tell(outcome.id, outcome)
        await self._check(list(left))

    async def _check(self, ids: list[JobId]) -> None:
        """Check from time to time whether jobs without an outcome still exist. A job that was
        neither live nor ended may have ended between the two reads: only `get`, which reads one
        moment, can say that the job is gone."""
        now = asyncio.get_running_loop().time
        began = now()
        doubtful = [one for one in ids if self._is_doubtful(one, began)]
        if not doubtful:
            return
        found = {live.id: live.state for live in await self._jobs.live(doubtful)}
        unclear = [one for one in doubtful if one not in found]
        if unclear:
            found |= {job.id: job.state for job in await self._jobs.get(unclear)}
        trust = max(TRUST_SECONDS, CHECK_FACTOR * (now() - began))
        check_at = now() + min(trust, LONGEST_TRUST_SECONDS)
        for one in doubtful:
            if (state := found.get(one)) is None:
                self.fail(one, UnknownJob(one))
            elif one in self._awaited:
                self._seen[one] = _Seen(state, check_at)

    def _is_doubtful(self, job_id: JobId, now: float) -> bool:
        seen = self._seen.get(job_id)
        return seen is None or seen.check_at <= now


NOT_SUCCEEDED: Mapping[JobState, type[JobNotSucceeded]] = {
    JobState.FAILED: JobFailed,
    JobState.CANCELLED: JobCancelled,
    JobState.EXPIRED: JobExpired,
    JobState.SKIPPED: JobSkipped,
}
"""What a caller who waits for a result gets instead, by the state that the job ended in."""


def result_at_once(job: Job) -> str | None:
    """The result of a job that nobody will run again, as JSON text: a job that has not ended is
    not waited for."""
    if not job.ended:
        raise ResultTimeout(job.id, 0.0, job.state)
    raise_unless_succeeded(Outcome(job.id, job.state, job.result_json, job.reason))
    return job.result_json


def raise_unless_succeeded(outcome: Outcome) -> None:
    """Raise the typed error for a job that ended without a result."""
    if outcome.state is JobState.SUCCEEDED:
        return
    if outcome.state in LIVE:
        raise ValueError(f"job {outcome.id} is {outcome.state} and has no outcome yet")
    raise NOT_SUCCEEDED[outcome.state](outcome.id, shown(outcome.reason or ""))
