"""Answers handlers that take of limits, and that report what they have spent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from holdfast.enqueue.batcher import Batcher
from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.ids import JobId
from holdfast.job.passing import (
    MOST_COUNTED,
    Passed,
    bucket_name,
    parted,
    path_of,
    split_bucket,
)
from holdfast.job.requests import (
    Answer,
    AttemptGone,
    PermitsTaken,
    ReportSpend,
    RequestRefused,
    SpendKept,
    TakePermits,
)
from holdfast.job.ties import Tie
from holdfast.limits.model import Budget
from holdfast.store.contract.limits import Take, Taken
from holdfast.store.contract.records import SpendReport
from holdfast.worker.attempt import Attempt
from holdfast.worker.setup import WorkerSetup
from holdfast.worker.step_answers import AtLast

LIMITS = "limits"
SPENT = "report_spend"
SPENT_IN_ALL = "what an attempt has spent in all"
UNKNOWN_WAIT = 60.0
"""Seconds until the next try where only an operator can make room."""


class LimitAnswers:
    """However many handlers ask, one call of each kind is under way."""

    def __init__(self, setup: WorkerSetup, at_last: AtLast) -> None:
        self._limits = setup.store.limits
        self._at_last = at_last
        self._takes: Batcher[Take, Taken] = Batcher(setup.store.limits.take)
        self._reports: Batcher[SpendReport, bool] = Batcher(setup.store.jobs.report_spend)
        self._loads: Batcher[JobId, Passed] = Batcher(self._load)

    async def answer(self, attempt: Attempt, request: TakePermits | ReportSpend) -> Answer:
        match request:
            case TakePermits():
                return await self._at_last(attempt, LIMITS, lambda: self._take(attempt, request))
            case ReportSpend():
                return await self._spend(attempt, request)
        assert_never(request)

    async def aclose(self) -> None:
        await self._takes.aclose()
        await self._reports.aclose()
        await self._loads.aclose()

    async def _take(self, attempt: Attempt, request: TakePermits) -> Answer:
        *beside, bucket = await self._buckets(attempt, request)
        taken = await self._takes.submit(Take(bucket, request.units, tuple(beside)))
        if taken.refused is not None:
            return RequestRefused(taken.refused)
        if taken.granted:
            return PermitsTaken()
        return PermitsTaken(UNKNOWN_WAIT if taken.wait is None else taken.wait)

    async def _buckets(self, attempt: Attempt, request: TakePermits) -> tuple[str, ...]:
        """The bucket, and before it those that lead to it if it is one of a budget."""
        limit, key = request.limit, request.key
        if key is None:
            return await self._own(attempt, limit) or (bucket_name(limit),)
        bucket = bucket_name(limit, key)
        known = await self._limits.find([limit])
        has_path = known and isinstance(known[0].settings, Budget)
        return path_of(bucket) if has_path else (bucket,)

    async def _spend(self, attempt: Attempt, request: ReportSpend) -> Answer:
        """Each report says all that the attempt has spent so far, so that none is counted twice or
        overtaken by an older one."""
        limit, task = request.limit, attempt.job.task
        if not await self._own(attempt, limit):
            expected = "a budget that the job passes: add it to limits=[…] of the task"
            raise BadOption(f"task {task!r}: limit of spent", expected, limit)
        sums = attempt.spent
        total = checks.count(
            SPENT_IN_ALL, sums.get(limit, 0) + request.units, least=0, most=MOST_COUNTED
        )
        attempt.spent = {**sums, limit: total}
        return await self._at_last(attempt, SPENT, lambda: self._report(attempt))

    async def _report(self, attempt: Attempt) -> Answer:
        report = SpendReport(attempt.job.id, attempt.job.fence, dict(attempt.spent))
        return SpendKept() if await self._reports.submit(report) else AttemptGone()

    async def _own(self, attempt: Attempt, limit: str) -> tuple[str, ...]:
        """The buckets of this limit that the job passes."""
        if not attempt.job.ties & Tie.PERMITS:
            return ()
        if attempt.passed is None:
            attempt.passed = await self._loads.submit(attempt.job.id)
        names = parted(attempt.passed.buckets)
        return tuple(name for name in names if split_bucket(name)[0] == limit)

    async def _load(self, ids: Sequence[JobId]) -> list[Passed]:
        found = await self._limits.of(ids)
        return [found.get(one, Passed(None)) for one in ids]
