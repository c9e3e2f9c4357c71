"""Everything of the first page in one answer: six questions to the store, each of a bounded cost.

Counts come from the tallies, times from the series, errors from the failures: none of them reads
jobs. The answer is the same for whoever shows it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from holdfast.background.store_clock import StoreClock
from holdfast.insights.diagnosis import Diagnosis
from holdfast.insights.stats import Percentiles
from holdfast.insights.worker_checks import alarms
from holdfast.insights.workforce import Workforce
from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.store.contract.failures import Failure
from holdfast.store.contract.measures import Grain, JobTimes, Point, Step
from holdfast.store.contract.operations import Operation, OperationState
from holdfast.store.contract.queues import Paused, QueueInfo
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import WorkerInfo

SPAN = timedelta(hours=1)
"""How far back the minutes, the times and the failures go."""
FAILURES_SHOWN = 5
OPERATIONS_SHOWN = 20
UNDER_WAY = (OperationState.RUNNING, OperationState.WAITING)


class Minute(msgspec.Struct, frozen=True):
    """How many jobs were moved in one minute, by what moved them."""

    at: datetime
    counts: dict[What, int]


class Overview(msgspec.Struct, frozen=True):
    """How a store stands. `now` is the store's clock. `minutes` are those of the last hour in
    which something happened, oldest first; the last one is not over. `wait` and `run` are of
    attempts that ended within the same hour. `failures`: the last seen, without muted ones."""

    kind: str
    now: datetime
    counts: dict[JobState, int]
    queues: list[QueueInfo]
    paused: Paused
    workers: list[WorkerInfo]
    alarms: list[Diagnosis]
    minutes: list[Minute]
    wait: Percentiles
    run: Percentiles
    failures: list[Failure]
    operations: list[Operation]

    @property
    def workforce(self) -> Workforce:
        return Workforce(self.now, self.queues, self.workers)


class OverviewReader:
    """Reads overviews of one open store, as often as somebody looks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._clock = StoreClock(store, time.monotonic)
        self._knows_time = False

    async def read(self) -> Overview:
        """Six questions. Only the first time, while no worker tells the store's time, a seventh."""
        store = self._store
        workers = await store.workers.find()
        now = await self._now(workers)
        since, until = now - SPAN, now + timedelta(minutes=1)
        queues, paused, points, failures, operations = await asyncio.gather(
            store.queues.find(),
            store.queues.paused(),
            store.telemetry.series(Step.MINUTE, since, until, Grain.ALL),
            store.failures.find(since=since, muted=False, limit=FAILURES_SHOWN),
            store.operations.find(states=UNDER_WAY, limit=OPERATIONS_SHOWN),
        )
        times = _merged(point.times for point in points)
        return Overview(
            kind=store.kind,
            now=now,
            counts=_sums(queues),
            queues=queues,
            paused=paused,
            workers=workers,
            alarms=alarms(Workforce(now, queues, workers), paused),
            minutes=_minutes(points),
            wait=Percentiles.of(times.wait),
            run=Percentiles.of(times.run),
            failures=failures,
            operations=operations,
        )

    async def _now(self, workers: list[WorkerInfo]) -> datetime:
        """Every reading of a worker tells the time by the store's clock. Without workers it is
        asked for once, and estimated from then on."""
        told = [worker.read_at for worker in workers if worker.read_at is not None]
        if told:
            self._clock.heard(max(told))
        elif not self._knows_time:
            await self._clock.read()
        self._knows_time = True
        return self._clock.estimate()


def _sums(queues: Iterable[QueueInfo]) -> dict[JobState, int]:
    sums: Counter[JobState] = Counter()
    for queue in queues:
        sums.update(queue.counts)
    return {state: sums[state] for state in JobState if sums[state]}


def _merged(every: Iterable[JobTimes]) -> JobTimes:
    merged = JobTimes.none()
    for times in every:
        merged.merge(times)
    return merged


def _minutes(points: Iterable[Point]) -> list[Minute]:
    return [Minute(point.at, dict(point.counts)) for point in points]
