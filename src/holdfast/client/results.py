"""Waiting for results: all waiters of a program share one question to the store.

Nothing is announced when a job ends, because nobody waits for most jobs and an
announcement would cost every one of them. Those who wait ask together. A job is
asked about often at first and then less often, whoever else comes to wait: jobs
that have been waited for equally long form a group, and each group has the time
of its next look.

Only the poller talks to the store. A waiter counts its own time, so a call that
hangs delays nobody beyond the timeout they gave.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
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
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.store.contract.jobs import Jobs
from holdfast.store.contract.records import Outcome

ONE_LOOK = 1.0
FIRST_WAIT = 0.002
LONGEST_WAIT = 0.25
GROWTH = 1.4
EARLY = 0.25
"""The part of its wait by which a group may be looked at early, to share another's look."""

PAUSES = 30
"""Looks take at most one part in so many of a program's time. Jobs that were looked at rest so
many times as long as their look took. The poller itself rests so many times `A_FEW` seconds after
a look, or less if the look was shorter, once it has looked that often for `BURST` seconds."""
LONGEST_REST = 5.0
A_FEW = 0.0005
BURST = 0.5

TRUST, LONGEST_TRUST = 1.0, 30.0
"""Seconds for which a job without an outcome is believed to be there, before that is checked:
longer if a check of so many jobs takes long."""
CHECK_PAUSES = 100


@dataclass(slots=True)
class _Watched:
    """A job that somebody waits for. `state` is the last one seen of it, None before any;
    `check_at` is when to see again whether the job is there."""

    answers: list[asyncio.Future[Outcome]] = field(default_factory=list)
    state: JobState | None = None
    check_at: float = 0.0

    def tell(self, outcome: Outcome) -> None:
        for answer in self.answers:
            if not answer.done():
                answer.set_result(outcome)

    def fail(self, error: Exception) -> None:
        for answer in self.answers:
            if not answer.done():
                answer.set_exception(error)


@dataclass(frozen=True, slots=True)
class _Group:
    """Jobs whose next look is due at the same time."""

    due: float
    wait: float
    ids: list[JobId]


class ResultWaiter:
    """Answers `wait(id)` for any number of jobs with one polling task."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._watched: dict[JobId, _Watched] = {}
        self._groups: list[_Group] = []
        self._rested = 0.0
        self._joined = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def wait(self, job_id: JobId, timeout: float | None) -> Outcome:
        """The job's outcome; UnknownJob if the store does not hold it (any more), ResultTimeout
        when time is up. An outage of the store is waited out. Without any time it is one look."""
        if timeout == 0:
            return await self._look_once(job_id)
        answer = self._join(job_id)
        watched = self._watched[job_id]
        try:
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError:
            raise ResultTimeout(job_id, timeout or 0.0, watched.state) from None
        finally:
            watched.answers.remove(answer)
            if not watched.answers:
                self._watched.pop(job_id, None)

    async def _look_once(self, job_id: JobId) -> Outcome:
        try:
            async with asyncio.timeout(ONE_LOOK):
                found = await self._jobs.get([job_id])
        except (TimeoutError, StoreUnavailable):
            raise ResultTimeout(job_id, 0.0, None) from None
        if not found:
            raise UnknownJob(job_id)
        [job] = found
        if not job.ended:
            raise ResultTimeout(job_id, 0.0, job.state)
        return Outcome(job.id, job.state, job.result, job.reason)

    async def aclose(self) -> None:
        """Whoever still waits is told: no answer can come any more."""
        self._fail(list(self._watched), NotOpen())
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _join(self, job_id: JobId) -> asyncio.Future[Outcome]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Outcome] = loop.create_future()
        self._watched.setdefault(job_id, _Watched()).answers.append(answer)
        self._groups.append(_Group(loop.time(), FIRST_WAIT / GROWTH, [job_id]))
        self._joined.set()
        if self._task is None:
            self._task = asyncio.create_task(self._poll(), name="holdfast-results")
        return answer

    async def _poll(self) -> None:
        now = asyncio.get_running_loop().time
        try:
            while self._watched:
                await self._until_due()
                groups = self._take_due(now())
                began = now()
                answered = await self._look(list(dict.fromkeys(self._still(groups))))
                took = now() - began if answered else 0.0
                self._rested = max(self._rested, began - BURST) + PAUSES * min(took, A_FEW)
                longest = max(LONGEST_WAIT, min(PAUSES * took, LONGEST_REST))
                self._put_back(groups, now(), longest)
        finally:
            self._groups.clear()
            self._task = None

    async def _until_due(self) -> None:
        loop = asyncio.get_running_loop()
        if self._rested > loop.time():
            await asyncio.sleep(self._rested - loop.time())
        self._joined.clear()
        due = min(group.due for group in self._groups)
        if due > loop.time():
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._joined.wait()

    def _take_due(self, now: float) -> list[_Group]:
        due, later = list[_Group](), list[_Group]()
        for group in self._groups:
            (due if group.due - EARLY * group.wait <= now else later).append(group)
        self._groups = later
        return due

    def _put_back(self, groups: list[_Group], now: float, longest: float) -> None:
        """Jobs whose next wait is equally long are one group from now on."""
        again: defaultdict[float, list[JobId]] = defaultdict(list)
        for group in groups:
            again[min(longest, group.wait * GROWTH)] += self._still([group])
        self._groups += [
            _Group(now + wait, wait, list(dict.fromkeys(ids))) for wait, ids in again.items() if ids
        ]

    def _still(self, groups: Iterable[_Group]) -> list[JobId]:
        return [job_id for group in groups for job_id in group.ids if job_id in self._watched]

    async def _look(self, ids: list[JobId]) -> bool:
        """Whether the store answered. An outage is no answer: each waiter's own timeout bounds
        its patience. Any other error is for those who asked."""
        if not ids:
            return False
        try:
            await self._check(await self._without_outcome(ids))
        except StoreUnavailable:
            return False
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the waiters' to see
            self._fail(ids, error)
        return True

    async def _without_outcome(self, ids: list[JobId]) -> list[JobId]:
        left = dict.fromkeys(ids)
        for outcome in await self._jobs.outcomes(ids):
            del left[outcome.id]
            if outcome.id in self._watched:
                self._watched[outcome.id].tell(outcome)
        return list(left)

    async def _check(self, ids: list[JobId]) -> None:
        """Look now and then whether jobs without an outcome are still there. A job that is
        neither live nor ended may have ended between the two looks: only `get`, which sees
        one moment, can say that it is gone."""
        now = asyncio.get_running_loop().time
        began = now()
        doubtful = [one for one in ids if self._is_doubtful(one, began)]
        if not doubtful:
            return
        found = {live.id: live.state for live in await self._jobs.live(doubtful)}
        unclear = [one for one in doubtful if one not in found]
        if unclear:
            found |= {job.id: job.state for job in await self._jobs.get(unclear)}
        check_at = now() + min(max(TRUST, CHECK_PAUSES * (now() - began)), LONGEST_TRUST)
        for one in doubtful:
            self._saw(one, found.get(one), check_at)

    def _is_doubtful(self, job_id: JobId, now: float) -> bool:
        watched = self._watched.get(job_id)
        return watched is not None and watched.check_at <= now

    def _saw(self, job_id: JobId, state: JobState | None, check_at: float) -> None:
        watched = self._watched.get(job_id)
        if watched is None:
            return
        if state is None:
            watched.fail(UnknownJob(job_id))
        else:
            watched.state, watched.check_at = state, check_at

    def _fail(self, ids: Iterable[JobId], error: Exception) -> None:
        for job_id in ids:
            if job_id in self._watched:
                self._watched[job_id].fail(error)


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
