"""Waiting for results: all waiters of a program share one question to the store.

Nothing is announced when a job ends, because nobody waits for most jobs and an
announcement would cost every one of them. Those who wait ask together, often
at first and then less often.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import assert_never

from holdfast.errors import (
    JobCancelled,
    JobExpired,
    JobFailed,
    JobNotSucceeded,
    JobSkipped,
    NotOpen,
    ResultTimeout,
    StoreUnavailable,
    UnknownJob,
)
from holdfast.job import JobId, JobState
from holdfast.store.contract import Jobs
from holdfast.store.records import Outcome

FIRST_WAIT = 0.002
LONGEST_WAIT = 0.25
GROWTH = 1.4


class ResultWaiter:
    """Answers `wait(id)` for any number of jobs with one polling loop."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._waiting: dict[JobId, list[asyncio.Future[Outcome]]] = defaultdict(list)
        self._fresh = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def wait(self, job_id: JobId, timeout: float | None) -> Outcome:
        """The job's outcome; raises UnknownJob at once, ResultTimeout when time is up."""
        await self._require_known(job_id)
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting[job_id].append(answer)
        self._fresh.set()
        if self._task is None:
            self._task = asyncio.create_task(self._poll(), name="holdfast-results")
        try:
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError:
            raise ResultTimeout(job_id, timeout or 0.0, await self._state(job_id)) from None
        finally:
            self._forget(job_id, answer)

    async def aclose(self) -> None:
        """Whoever still waits is told: no answer can come any more."""
        self._fail_all(NotOpen())
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _poll(self) -> None:
        wait = FIRST_WAIT
        try:
            while self._waiting:
                if self._fresh.is_set():
                    self._fresh.clear()
                    wait = FIRST_WAIT
                await self._ask()
                await asyncio.sleep(wait)
                wait = min(LONGEST_WAIT, wait * GROWTH)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the waiters' to see
            self._fail_all(error)
        finally:
            self._task = None

    async def _ask(self) -> None:
        try:
            outcomes = await self._jobs.outcomes(list(self._waiting))
        except StoreUnavailable:
            return  # an outage is no answer: each waiter's own timeout bounds its patience
        for outcome in outcomes:
            for answer in self._waiting.get(outcome.id, ()):
                if not answer.done():
                    answer.set_result(outcome)

    def _fail_all(self, error: Exception) -> None:
        for answers in self._waiting.values():
            for answer in answers:
                if not answer.done():
                    answer.set_exception(error)

    def _forget(self, job_id: JobId, answer: asyncio.Future[Outcome]) -> None:
        waiting = self._waiting[job_id]
        waiting.remove(answer)
        if not waiting:
            del self._waiting[job_id]

    async def _require_known(self, job_id: JobId) -> None:
        if not await self._jobs.live([job_id]) and not await self._jobs.outcomes([job_id]):
            raise UnknownJob(job_id)

    async def _state(self, job_id: JobId) -> str:
        live = await self._jobs.live([job_id])
        return live[0].state if live else "ending"


def raise_unless_succeeded(outcome: Outcome) -> None:
    """The typed error for a job that ended without a result."""
    error: type[JobNotSucceeded]
    match outcome.state:
        case JobState.SUCCEEDED:
            return
        case JobState.FAILED:
            error = JobFailed
        case JobState.CANCELLED:
            error = JobCancelled
        case JobState.EXPIRED:
            error = JobExpired
        case JobState.SKIPPED:
            error = JobSkipped
        case (
            JobState.BLOCKED
            | JobState.SCHEDULED
            | JobState.READY
            | JobState.RUNNING
            | JobState.SUSPENDED
        ):
            raise ValueError(f"job {outcome.id} is {outcome.state} and has no outcome yet")
        case _:
            assert_never(outcome.state)
    raise error(outcome.id, outcome.reason or "")
