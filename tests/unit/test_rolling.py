"""How minutes are rolled up on any store: what is read and written, and who may run meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

from holdfast.job.what import What
from holdfast.store.contract.measures import Grain, JobTimes, Pair, Point, Step
from holdfast.store.rolling import (
    LARGER,
    TURN,
    Counted,
    KeptPoint,
    KeptTimes,
    Measured,
    Measures,
    SeriesFilter,
    Unrolled,
)
from holdfast.telemetry.sketch import Sketch

MINUTE = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def times(*runs: float) -> JobTimes:
    return JobTimes(Sketch.of(runs), Sketch.of(runs), Sketch.of(runs))


class OneMinute(Measures):
    """A store with a minute that is to be rolled up."""

    def __init__(self, pairs: Sequence[Pair], former: Sequence[KeptPoint] = ()) -> None:
        self.pairs = pairs
        self.former = former
        self.points: Sequence[KeptPoint] = ()
        self.ever: Sequence[KeptTimes] = ()

    async def find_series(
        self, wanted: SeriesFilter
    ) -> tuple[list[KeptPoint], list[Counted], list[Measured]]:
        raise NotImplementedError

    async def find_times(self) -> list[KeptTimes]:
        raise NotImplementedError

    async def next_due(self) -> Unrolled | None:
        return Unrolled(MINUTE, MINUTE)

    async def parts_of(self, minute: datetime) -> tuple[list[Counted], list[Measured]]:
        counted = [(minute, *pair, What.SUCCEEDED, 2) for pair in self.pairs]
        return counted, [(minute, *pair, times(0.5, 2.0).encoded()) for pair in self.pairs]

    async def points_at(self, starts: Mapping[Step, datetime]) -> list[KeptPoint]:
        return [*self.former]

    async def ever_of(self, pairs: Collection[Pair]) -> list[KeptTimes]:
        return [(*pair, times(1.0).encoded()) for pair in pairs]

    async def write_rolled(
        self, due: Unrolled, points: Sequence[KeptPoint], ever: Sequence[KeptTimes]
    ) -> bool:
        self.points, self.ever = points, ever
        return True


async def test_a_minute_is_added_to_its_points_of_every_step_and_grain() -> None:
    store = OneMinute([("mail", "send"), ("mail", "sort"), ("media", "cut")])
    assert await store.roll_up(1) == 1
    written = {(one.step, one.queue, one.task): one.opened() for one in store.points}
    assert len(written) == len(store.points) == 4 * 6
    for step in Step:
        at = step.start_of(MINUTE)
        all_times = times(*[0.5, 2.0] * 3)
        assert written[step, "", ""] == Point(at, "", "", {What.SUCCEEDED: 6}, all_times)
        assert written[step, "mail", ""].times == times(*[0.5, 2.0] * 2)
        assert written[step, "mail", "send"].counts == {What.SUCCEEDED: 2}
    assert {JobTimes.decoded(blob).observed for _, _, blob in store.ever} == {3}


async def test_points_to_which_nothing_is_added_are_not_written_again() -> None:
    """A day knows of more tasks than have jobs in a minute."""
    busy, quiet = ("mail", "send"), ("mail", "sort")
    former = [
        KeptPoint.of(step, Point(step.start_of(MINUTE), *pair, {What.SUCCEEDED: 5}, times(1.0)))
        for step in LARGER
        for pair in (busy, quiet)
    ]
    store = OneMinute([busy], former)
    await store.roll_up(1)
    assert {(one.queue, one.task) for one in store.points} == {("", ""), ("mail", ""), busy}
    [day] = [
        one.opened() for one in store.points if (one.step, one.grain) == (Step.DAY, Grain.TASK)
    ]
    assert day.counts == {What.SUCCEEDED: 7}
    assert day.times == times(1.0, 0.5, 2.0)


async def test_others_run_while_many_tasks_are_rolled_up() -> None:
    store, turns = OneMinute([("mail", f"task-{n}") for n in range(10 * TURN)]), 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    await store.roll_up(1)
    other.cancel()
    assert turns >= 90  # ten for each of nine passes over the points
