"""How measures become the points of a series: the same for every store.

A minute stays open for a while after its end. It is then *closed*: measures that come later are
not taken, and moves that are folded later count in the oldest minute that is open. So a closed
minute never changes. It is *rolled up* once: its counts and its times are added to its point, to
the points of the larger steps that it belongs to, and to all times ever measured.

A store has two marks: every minute before `closed` is closed, and every minute before `rolled` is
rolled up. Whoever rolls up a minute moves `rolled` from where it was read, in the transaction that
writes the points. If another replica was faster, nothing is written. So nothing is added twice, and
it does not matter who does it, or how often somebody tries.

Minutes that are not rolled up yet are merged when they are read.

Stores read and write points as text and bytes. What is in them is read here, a few at a time: with
a thousand tasks it is a quarter of a second of work, and the loop has other things to do.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import product
from typing import TypeVar

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
TURN = 50
"""So many rows are read, merged or written between two turns of the loop."""

Counted = tuple[datetime, str, str, What, int]  # minute, queue, task, what and jobs
Measured = tuple[datetime, str, str, bytes]  # minute, queue, task and times
KeptTimes = tuple[str, str, bytes]  # queue, task and times
T = TypeVar("T")

_counts = msgspec.json.Decoder(Counts)


class KeptPoint(msgspec.Struct, frozen=True):
    """A point as a store keeps it."""

    step: Step
    at: datetime
    queue: str
    task: str
    counts: str
    times: bytes

    @classmethod
    def of(cls, step: Step, point: Point) -> KeptPoint:
        counts = msgspec.json.encode(point.counts).decode()
        return cls(step, point.at, point.queue, point.task, counts, point.times.encoded())

    @property
    def grain(self) -> Grain:
        return grain_of(self.queue, self.task)

    def opened(self) -> Point:
        counts, times = _counts.decode(self.counts), JobTimes.decoded(self.times)
        return Point(self.at, self.queue, self.task, counts, times)


class Unrolled(msgspec.Struct, frozen=True):
    """A closed minute that is to be rolled up, and where `rolled` was when that was read."""

    rolled: datetime
    minute: datetime


class SeriesFilter(msgspec.Struct, frozen=True):
    """Which points of a series are asked for: those of one step and one grain. No queues or no
    tasks: of all."""

    step: Step
    since: datetime
    until: datetime
    grain: Grain
    queues: tuple[str, ...]
    tasks: tuple[str, ...]

    @property
    def pairs(self) -> list[Pair] | None:
        """The names of the points, where they are known: then a store need not look at others."""
        if self.grain is Grain.ALL:
            return [(EVERY, EVERY)]
        if self.grain is Grain.QUEUE and self.queues:
            return [(queue, EVERY) for queue in self.queues]
        return list(product(self.queues, self.tasks)) if self.queues and self.tasks else None


class Measures(ABC):
    """The verbs of `holdfast.store.contract.telemetry.Telemetry` about times that are the same on
    every store, and what they need of it."""

    async def roll_up(self, limit: int) -> int:
        """Roll up to `limit` minutes up; returns how many. One that another replica has rolled up
        meanwhile ends it: that replica goes on."""
        for number in range(limit):
            due = await self.next_due()
            if due is None or not await self._roll(due):
                return number
        return limit

    async def series(
        self,
        step: Step,
        since: datetime,
        until: datetime,
        grain: Grain,
        queues: Sequence[str] = (),
        tasks: Sequence[str] = (),
    ) -> list[Point]:
        of_queues = () if grain is Grain.ALL else tuple(queues)
        of_tasks = tuple(tasks) if grain is Grain.TASK else ()
        wanted = SeriesFilter(step, since, until, grain, of_queues, of_tasks)
        kept, counted, measured = await self.find_series(wanted)
        whole = Points(step, (grain,), [one.opened() async for one in in_turns(kept)])
        await whole.add(counted, measured)
        return sorted(whole, key=lambda one: (one.at, one.queue, one.task))

    async def times(self) -> list[PairTimes]:
        found: dict[Pair, JobTimes] = {}
        async for queue, task, blob in in_turns(await self.find_times()):
            times = JobTimes.decoded(blob)
            if (known := found.setdefault((queue, task), times)) is not times:
                known.merge(times)
        return [PairTimes(queue, task, times) for (queue, task), times in sorted(found.items())]

    async def _roll(self, due: Unrolled) -> bool:
        fresh = Points(Step.MINUTE, (Grain.QUEUE, Grain.TASK))
        await fresh.add(*await self.parts_of(due.minute))
        fresh.sum_up()
        kept = [KeptPoint.of(Step.MINUTE, one) async for one in in_turns(fresh)]
        starts = {step: step.start_of(due.minute) for step in LARGER}
        former = await self.points_at(starts)
        for step, at in starts.items():
            larger = LargerPoints(at, (one for one in former if one.step is step))
            async for point in in_turns(fresh):
                larger.add(point)
            kept += [KeptPoint.of(step, one) async for one in in_turns(larger.changed.values())]
        return await self.write_rolled(due, kept, await self._ever(fresh))

    async def _ever(self, fresh: Points) -> list[KeptTimes]:
        times = {
            (one.queue, one.task): one.times
            for one in fresh
            if one.times.observed and grain_of(one.queue, one.task) is Grain.TASK
        }
        former = {(queue, task): blob for queue, task, blob in await self.ever_of(times)}
        ever = []
        async for pair, measured in in_turns(times.items()):
            whole = JobTimes.decoded(former[pair]) if pair in former else JobTimes.none()
            whole.merge(measured)
            ever.append((*pair, whole.encoded()))
        return ever

    # What they need of a store ----------------------------------------------------------------

    @abstractmethod
    async def find_series(
        self, wanted: SeriesFilter
    ) -> tuple[list[KeptPoint], list[Counted], list[Measured]]:
        """The points that are kept, and what is not rolled up yet."""

    @abstractmethod
    async def find_times(self) -> list[KeptTimes]:
        """All times ever measured. Several rows may be about one pair."""

    @abstractmethod
    async def next_due(self) -> Unrolled | None:
        """Close what is to be closed, and find the oldest closed minute that is not rolled up."""

    @abstractmethod
    async def parts_of(self, minute: datetime) -> tuple[list[Counted], list[Measured]]:
        """What the books and the workers say about a minute."""

    @abstractmethod
    async def points_at(self, starts: Mapping[Step, datetime]) -> list[KeptPoint]:
        """The points of these steps as they are, of every grain."""

    @abstractmethod
    async def ever_of(self, pairs: Collection[Pair]) -> list[KeptTimes]:
        """All times of these pairs that are rolled up."""

    @abstractmethod
    async def write_rolled(
        self, due: Unrolled, points: Sequence[KeptPoint], ever: Sequence[KeptTimes]
    ) -> bool:
        """Write it all and move `rolled` behind the minute, unless it has been moved meanwhile."""


class Points:
    """The points of one step while they are added up, at these grains."""

    def __init__(self, step: Step, grains: Collection[Grain], former: Iterable[Point] = ()) -> None:
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
            for point in self._of(self._step.start_of(minute), (queue, task)):
                point.counts[what] = point.counts.get(what, 0) + jobs
        async for minute, queue, task, blob in in_turns(measured):
            times = JobTimes.decoded(blob)
            for point in self._of(self._step.start_of(minute), (queue, task)):
                point.times.merge(times)

    def sum_up(self) -> None:
        """Add the points of all queues up: there are fewer of them than of tasks."""
        for at, of_grain in self._points.items():
            of_grain[Grain.ALL] = {(EVERY, EVERY): (whole := nothing(at, (EVERY, EVERY)))}
            for point in of_grain[Grain.QUEUE].values():
                merge(whole, point)

    def __iter__(self) -> Iterator[Point]:
        for of_grain in self._points.values():
            for points in of_grain.values():
                yield from points.values()

    def _at(self, at: datetime) -> dict[Grain, dict[Pair, Point]]:
        if (found := self._points.get(at)) is None:
            found = self._points[at] = {grain: {} for grain in self._grains}
        return found

    def _of(self, at: datetime, pair: Pair) -> Iterator[Point]:
        for grain, known in self._at(at).items():
            own = grain.of(pair)
            if (point := known.get(own)) is None:
                own = grain.of(named(own, known))
                point = known.setdefault(own, nothing(at, own))
            yield point


class LargerPoints:
    """The points of one larger step to which those of a minute are added. Only those that change
    are read."""

    def __init__(self, at: datetime, former: Iterable[KeptPoint]) -> None:
        self._at = at
        self._known: dict[Grain, dict[Pair, KeptPoint | None]] = {grain: {} for grain in Grain}
        self.changed: dict[Pair, Point] = {}
        for one in former:
            self._known[one.grain][one.queue, one.task] = one

    def add(self, point: Point) -> None:
        grain = grain_of(point.queue, point.task)
        known = self._known[grain]
        pair = grain.of(named((point.queue, point.task), known))
        if pair not in self.changed:
            kept = known.setdefault(pair, None)
            self.changed[pair] = nothing(self._at, pair) if kept is None else kept.opened()
        merge(self.changed[pair], point)


def nothing(at: datetime, pair: Pair) -> Point:
    return Point(at, *pair, {}, JobTimes.none())


def merge(whole: Point, part: Point) -> None:
    for what, jobs in part.counts.items():
        whole.counts[what] = whole.counts.get(what, 0) + jobs
    whole.times.merge(part.times)


def grain_of(queue: str, task: str) -> Grain:
    if task:
        return Grain.TASK
    return Grain.QUEUE if queue else Grain.ALL


async def in_turns(things: Iterable[T]) -> AsyncIterator[T]:
    """Let others run after each few of these."""
    for number, thing in enumerate(things, 1):
        yield thing
        if number % TURN == 0:
            await asyncio.sleep(0)


def newest(measures: Iterable[Measure]) -> list[Measure]:
    """Each measure once, sorted by its key: the newest, if one call has several."""
    found: dict[tuple[datetime, str, str, str], Measure] = {}
    for measure in measures:
        former = found.get(measure.key)
        if former is None or former.number < measure.number:
            found[measure.key] = measure
    return [found[key] for key in sorted(found)]
