"""Waiting for results: all waiters of a program share one poller.

A store does not announce that a job has ended: nobody waits for most jobs, and an announcement
would cost each of them. So one poller asks the store about all awaited jobs together. It asks about
a job often at first and then less and less often, however many others are awaited. Jobs that have
been awaited equally long form a group, and each group has a time of its next poll.

Only the poller calls the store. Each waiter measures its own timeout, so a call to the store that
hangs delays nobody beyond the timeout that was given.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress

import msgspec

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
from holdfast.job.record import Job
from holdfast.job.sealed import shown
from holdfast.job.state import LIVE, JobState
from holdfast.store.contract.jobs import Jobs
from holdfast.store.contract.records import Outcome

SINGLE_READ_SECONDS = 1.0
"""How long a wait with a timeout of 0 may take: it reads the job once."""
FIRST_WAIT_SECONDS = 0.002
LONGEST_WAIT_SECONDS = 0.25
WAIT_GROWTH = 1.4
EARLY_SHARE = 0.25
"""A group may be polled early by this share of its wait, together with a group that is due."""

REST_FACTOR = 30
"""Polls take at most one part in 30 of a program's time. After a poll, its jobs are left alone for
30 times as long as the poll took. The poller as a whole also rests: 30 times as long as the poll
took, but at most 30 times `SHORT_POLL_SECONDS`. That rest begins only when the poller has been busy
for `BURST_SECONDS`."""
LONGEST_REST_SECONDS = 5.0
SHORT_POLL_SECONDS = 0.0005
BURST_SECONDS = 0.5

TRUST_SECONDS, LONGEST_TRUST_SECONDS = 1.0, 30.0
"""How long a job without an outcome is believed to exist before the poller checks it again. The
time grows with how long such a check takes."""
CHECK_FACTOR = 100


class _Watched(msgspec.Struct):
    """A job that somebody waits for. `state` is the last state that was read, None before the first
    read; `check_at` is when to check again whether the job still exists."""

    answers: list[asyncio.Future[Outcome]] = []
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


class _Group(msgspec.Struct, frozen=True):
    """Jobs that are polled next at the same time, `due`, after a wait of `wait` seconds."""

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
        """Wait for the job's outcome. Raises `UnknownJob` if the store does not hold the job (any
        more), `ResultTimeout` when the time is up. An outage of the store is waited out. With a
        timeout of 0 the job is read once."""
        if timeout == 0:
            return await self._read_once(job_id)
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

    async def aclose(self) -> None:
        """Raise `NotOpen` in every waiter: no answer can come any more."""
        self._fail(list(self._watched), NotOpen())
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _join(self, job_id: JobId) -> asyncio.Future[Outcome]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Outcome] = loop.create_future()
        self._watched.setdefault(job_id, _Watched()).answers.append(answer)
        self._groups.append(_Group(loop.time(), FIRST_WAIT_SECONDS / WAIT_GROWTH, [job_id]))
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
                answered = await self._ask(list(dict.fromkeys(self._still(groups))))
                took = now() - began if answered else 0.0
                self._rested = max(self._rested, began - BURST_SECONDS)
                self._rested += REST_FACTOR * min(took, SHORT_POLL_SECONDS)
                rest = min(REST_FACTOR * took, LONGEST_REST_SECONDS)
                longest = max(LONGEST_WAIT_SECONDS, rest)
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
            (due if group.due - EARLY_SHARE * group.wait <= now else later).append(group)
        self._groups = later
        return due

    def _put_back(self, groups: list[_Group], now: float, longest: float) -> None:
        """Put the polled jobs into groups again: jobs whose next wait is equally long form one."""
        again: defaultdict[float, list[JobId]] = defaultdict(list)
        for group in groups:
            again[min(longest, group.wait * WAIT_GROWTH)] += self._still([group])
        self._groups += [
            _Group(now + wait, wait, list(dict.fromkeys(ids))) for wait, ids in again.items() if ids
        ]

    def _still(self, groups: Iterable[_Group]) -> list[JobId]:
        return [job_id for group in groups for job_id in group.ids if job_id in self._watched]

    async def _ask(self, ids: list[JobId]) -> bool:
        """Ask the store about these jobs; answers whether the store answered. An outage is not
        reported to anybody: each waiter has a timeout of its own. Any other error is raised in the
        waiters of these jobs."""
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
