"""How measures become the points of a series: the same for every store.

A minute stays open for a while after its end. It is then *sealed*: measures that come later are
not taken, and moves that are folded later count in the oldest minute that is open. So a sealed
minute never changes. It is *rolled up* once: its counts and its times are added to its point, to
the points of the larger steps that it belongs to, and to all times ever measured.

A store has two marks: every minute before `sealed` is sealed, and every minute before `rolled` is
rolled up. Whoever rolls up a minute moves `rolled` from where it was read, in the transaction that
writes the points. If another replica was faster, nothing is written. So nothing is added twice, and
it does not matter who does it, or how often somebody tries.

Minutes that are not rolled up yet are merged when they are read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import product
from typing import Protocol

import msgspec

from holdfast.job.what import What
from holdfast.store.contract.measures import (
    EVERY,
    Counts,
    Grain,
    JobTimes,
    Measure,
    Pair,
    PairTimes,
    Point,
    Step,
    named,
)

LARGER = (Step.TEN_MINUTES, Step.HOUR, Step.DAY)
MERGED_BATCH = 200
"""So many rows are merged between two turns of the loop."""

Key = tuple[Step, datetime, str, str]  # step, when it began, queue, task
Counted = tuple[datetime, str, str, What, int]  # minute, queue, task, what and jobs
Measured = tuple[datetime, str, str, bytes]  # minute, queue, task and times
Span = tuple[datetime, datetime]

_counts = msgspec.json.Decoder(Counts)


def to_counts(text: str) -> Counts:
    return _counts.decode(text)


def from_counts(counts: Counts) -> str:
    return msgspec.json.encode(counts).decode()


class Unrolled(msgspec.Struct, frozen=True):
    """A sealed minute that is to be rolled up, and where `rolled` was when that was read."""

    rolled: datetime
    minute: datetime


class Rolled(msgspec.Struct, frozen=True):
    """What to write for one minute: points by what they are about, and all times by pair."""

    points: dict[Key, Point]
    ever: dict[Pair, JobTimes]


class RollsUp(Protocol):
    """What `roll_up` needs of a store."""

    async def next_due(self) -> Unrolled | None:
        """Seal what is to be sealed, and find the oldest sealed minute that is not rolled up."""
        ...

    async def parts_of(self, minute: datetime) -> tuple[list[Counted], list[Measured]]:
        """What the books and the workers say about a minute."""
        ...

    async def points_at(self, starts: Mapping[Step, datetime]) -> list[tuple[Step, Point]]:
        """The points of these steps as they are, of every grain."""
        ...

    async def ever_of(self, pairs: Collection[Pair]) -> list[PairTimes]: ...

    async def write_rolled(self, due: Unrolled, rolled: Rolled) -> bool:
        """Write it all and move `rolled` behind the minute, unless it has been moved meanwhile."""
        ...


async def roll_up(store: RollsUp, limit: int) -> int:
    """Roll up to `limit` minutes up; returns how many. One that another replica has rolled up
    meanwhile ends it: that replica goes on."""
    for number in range(limit):
        due = await store.next_due()
        if due is None or not await _roll(store, due):
            return number
    return limit


async def _roll(store: RollsUp, due: Unrolled) -> bool:
    counted, measured = await store.parts_of(due.minute)
    fresh = Points(Step.MINUTE)
    await fresh.add(counted, measured)
    points = fresh.by_key
    starts = {step: step.start_of(due.minute) for step in LARGER}
    former = await store.points_at(starts)
    for step, at in starts.items():
        larger = Points(step, (point for of, point in former if of is step))
        for point in fresh.points:
            larger.add_point(at, point)
        points |= larger.by_key
    return await store.write_rolled(due, Rolled(points, await _ever(store, fresh)))


async def _ever(store: RollsUp, fresh: Points) -> dict[Pair, JobTimes]:
    times = fresh.times_by_pair()
    for former in await store.ever_of(times):
        times[former.queue, former.task].merge(former.times)
    return times


class Points:
    """The points of one step while they are added up, at every grain or at one."""

    def __init__(
        self, step: Step, former: Iterable[Point] = (), grains: Collection[Grain] = tuple(Grain)
    ) -> None:
        self._step = step
        self._grains = grains
        self._points: dict[datetime, dict[Grain, dict[Pair, Point]]] = {}
        for point in former:
            grain = grain_of(point.queue, point.task)
            self._at(point.at)[grain][point.queue, point.task] = point

    async def add(self, counted: Iterable[Counted], measured: Iterable[Measured]) -> None:
        """What the books count, and what workers measured. Where there are too many pairs, those
        that the books know are named first."""
        for minute, queue, task, what, jobs in counted:
            at = self._step.start_of(minute)
            for point in self._of(at, (queue, task)):
                point.counts[what] = point.counts.get(what, 0) + jobs
        for number, (minute, queue, task, blob) in enumerate(measured, 1):
            at, times = self._step.start_of(minute), JobTimes.decoded(blob)
            for point in self._of(at, (queue, task)):
                point.times.merge(times)
            if number % MERGED_BATCH == 0:
                await asyncio.sleep(0)

    def add_point(self, at: datetime, point: Point) -> None:
        """Add a point of a smaller step, at its own grain."""
        grain = grain_of(point.queue, point.task)
        whole = self._named(at, grain, (point.queue, point.task))
        for what, jobs in point.counts.items():
            whole.counts[what] = whole.counts.get(what, 0) + jobs
        whole.times.merge(point.times)

    def times_by_pair(self) -> dict[Pair, JobTimes]:
        """Copies of the times that were measured."""
        times = {}
        for point in self.points:
            if point.times.observed and grain_of(point.queue, point.task) is Grain.TASK:
                times[point.queue, point.task] = copied = JobTimes.none()
                copied.merge(point.times)
        return times

    @property
    def points(self) -> list[Point]:
        return [
            point
            for at in sorted(self._points)
            for of_grain in self._points[at].values()
            for point in of_grain.values()
        ]

    @property
    def by_key(self) -> dict[Key, Point]:
        return {(self._step, one.at, one.queue, one.task): one for one in self.points}

    def _at(self, at: datetime) -> dict[Grain, dict[Pair, Point]]:
        return self._points.setdefault(at, {grain: {} for grain in self._grains})

    def _of(self, at: datetime, pair: Pair) -> list[Point]:
        return [self._named(at, grain, grain.of(pair)) for grain in self._grains]

    def _named(self, at: datetime, grain: Grain, pair: Pair) -> Point:
        known = self._at(at)[grain]
        queue, task = pair = grain.of(named(pair, known))
        if pair not in known:
            known[pair] = Point(at, queue, task, {}, JobTimes.none())
        return known[pair]


def grain_of(queue: str, task: str) -> Grain:
    if task:
        return Grain.TASK
    return Grain.QUEUE if queue else Grain.ALL


async def to_series(
    step: Step,
    grain: Grain,
    rows: Iterable[Point],
    counted: Iterable[Counted],
    measured: Iterable[Measured],
) -> list[Point]:
    """The points that are kept, with the minutes added to them that are not rolled up yet."""
    whole = Points(step, rows, (grain,))
    await whole.add(counted, measured)
    return sorted(whole.points, key=lambda one: (one.at, one.queue, one.task))


async def to_ever(rows: Sequence[tuple[str, str, bytes]]) -> list[PairTimes]:
    """All times by pair, from rows of which several may be about one pair."""
    found: dict[Pair, JobTimes] = {}
    for number, (queue, task, blob) in enumerate(rows, 1):
        times = JobTimes.decoded(blob)
        if (known := found.setdefault((queue, task), times)) is not times:
            known.merge(times)
        if number % MERGED_BATCH == 0:
            await asyncio.sleep(0)
    return [PairTimes(queue, task, times) for (queue, task), times in sorted(found.items())]


def wanted_pairs(grain: Grain, queues: Sequence[str], tasks: Sequence[str]) -> list[Pair] | None:
    """The names of the points that are wanted, where they are known: then a store need not look at
    the others."""
    if grain is Grain.ALL:
        return [(EVERY, EVERY)]
    if grain is Grain.QUEUE and queues:
        return [(queue, EVERY) for queue in queues]
    return list(product(queues, tasks)) if queues and tasks else None


def newest(measures: Iterable[Measure]) -> list[Measure]:
    """Each measure once, sorted by its key: the newest, if one call has several."""
    found: dict[tuple[datetime, str, str, str], Measure] = {}
    for measure in measures:
        former = found.get(measure.key)
        if former is None or former.number < measure.number:
            found[measure.key] = measure
    return [found[key] for key in sorted(found)]
