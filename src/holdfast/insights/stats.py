"""The figures of a span of time: how many jobs there were, how they ended, and how long they waited
and ran, all together and by queue and task.

Counts come from the books and are exact. Times are those that workers measured. Both are read from
the same points, so they speak of the same minutes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from holdfast.errors import BadOption
from holdfast.job.state import ENDED
from holdfast.job.what import OF_ENDED, What
from holdfast.store.contract.measures import (
    KEPT,
    Counts,
    Grain,
    JobTimes,
    Pair,
    Point,
    Step,
)
from holdfast.store.contract.store import Store
from holdfast.telemetry.sketch import Sketch

MOST_POINTS = 200
"""A timeline has no more points, however long its span is."""
MOST_STEPS = 60
"""The figures of each task are added up from no more points."""
LONGEST = max(KEPT.values())
ENDS = tuple(OF_ENDED[state] for state in sorted(ENDED))
TRIED_AGAIN = (What.RETRIED, What.TIMED_OUT, What.LOST)


class Percentiles(msgspec.Struct, frozen=True):
    """Seconds within which so many of a hundred attempts were done; None if there were none."""

    p50: float | None
    p95: float | None
    p99: float | None

    @classmethod
    def of(cls, sketch: Sketch) -> Percentiles:
        return cls(*(sketch.quantile(share) for share in (0.5, 0.95, 0.99)))


class SpanFigures(msgspec.Struct, frozen=True):
    """What happened in a span. `rate` is how many jobs ended a second, `failed` how many of them
    for good, `tried_again` how many attempts failed and were followed by another. `lag` is how long
    the oldest ready job has waited by now, None if none is ready. A queue or a task that is None
    stands for all of them."""

    queue: str | None
    task: str | None
    counts: Counts
    enqueued: int
    ended: int
    failed: int
    tried_again: int
    rate: float
    lag: float | None
    wait: Percentiles
    run: Percentiles
    total: Percentiles


class TimelinePoint(msgspec.Struct, frozen=True):
    """One point of the timeline."""

    at: datetime
    counts: Counts
    wait: Percentiles
    run: Percentiles


class Stats(msgspec.Struct, frozen=True):
    """The figures of a span. It begins with a whole step, and so a little before what was asked
    for. `step` is how many seconds lie between two points of the timeline; a step in which nothing
    happened has none."""

    since: datetime
    until: datetime
    step: int
    every: SpanFigures
    tasks: list[SpanFigures]
    timeline: list[TimelinePoint]


async def read_stats(
    store: Store, span: float, queue: str | None = None, task: str | None = None
) -> Stats:
    """The last `span` seconds, of all jobs, or of those of a queue, a task or both. A timeline of
    one task in any queue is added up from the points of its queues."""
    now = await store.now()
    asked = now - timedelta(seconds=_checked(span))
    coarse = step_for(now, asked, Grain.TASK, MOST_STEPS)
    since, until = coarse.start_of(asked), now + timedelta(seconds=1)
    grain = Grain.TASK if task else Grain.QUEUE if queue else Grain.ALL
    fine = step_for(now, since, grain, MOST_POINTS)
    names = [queue] if queue else [], [task] if task else []
    books = store.telemetry
    line = await books.series(fine, since, until, grain, *names)
    pairs = await books.series(coarse, since, until, Grain.TASK, *names)
    lags = {one.name: one.oldest_ready_age for one in await store.queues.find(names[0])}
    make = _Figures((now - since).total_seconds(), lags)
    return Stats(
        since=since,
        until=now,
        step=fine.value,
        every=make.of(line, queue, task),
        tasks=sorted(
            (make.of(points, *pair) for pair, points in _by_pair(pairs).items()),
            key=lambda one: (-one.ended, -one.enqueued, one.queue or "", one.task or ""),
        ),
        timeline=_timeline(line),
    )


def step_for(now: datetime, since: datetime, grain: Grain, most: int) -> Step:
    """The smallest step that has no more points since then, and is kept for so long."""
    span = (now - since).total_seconds()
    for step in Step:
        if span / step <= most and KEPT[step, grain] >= span:
            return step
    return Step.DAY


def _checked(span: float) -> float:
    if not 0 < span <= LONGEST:
        days = LONGEST / Step.DAY
        raise BadOption("since", f"more than 0 seconds and at most {days:g} days", span)
    return span


class _Figures:
    """Adds points up. All figures of one answer share its span and its lags."""

    def __init__(self, seconds: float, lags: dict[str, float | None]) -> None:
        self._seconds = max(1.0, seconds)
        self._lags = lags

    def of(self, points: Iterable[Point], queue: str | None, task: str | None) -> SpanFigures:
        counts, times = _sum(points)
        ended = sum(counts[what] for what in ENDS)
        return SpanFigures(
            queue=queue,
            task=task,
            counts=dict(counts),
            enqueued=counts[What.ENQUEUED],
            ended=ended,
            failed=counts[What.FAILED],
            tried_again=sum(counts[what] for what in TRIED_AGAIN),
            rate=ended / self._seconds,
            lag=self._lag(queue),
            wait=Percentiles.of(times.wait),
            run=Percentiles.of(times.run),
            total=Percentiles.of(times.total),
        )

    def _lag(self, queue: str | None) -> float | None:
        if queue is not None:
            return self._lags.get(queue)
        return max((lag for lag in self._lags.values() if lag is not None), default=None)


def _sum(points: Iterable[Point]) -> tuple[Counter[What], JobTimes]:
    counts, times = Counter[What](), JobTimes.none()
    for point in points:
        counts.update(point.counts)
        times.merge(point.times)
    return counts, times


def _by_pair(points: Iterable[Point]) -> dict[Pair, list[Point]]:
    found: dict[Pair, list[Point]] = {}
    for point in points:
        found.setdefault((point.queue, point.task), []).append(point)
    return found


def _timeline(points: Sequence[Point]) -> list[TimelinePoint]:
    by_time: dict[datetime, list[Point]] = {}
    for point in points:
        by_time.setdefault(point.at, []).append(point)
    timeline = []
    for at, some in sorted(by_time.items()):
        counts, times = _sum(some)
        wait, run = Percentiles.of(times.wait), Percentiles.of(times.run)
        timeline.append(TimelinePoint(at, dict(counts), wait, run))
    return timeline
