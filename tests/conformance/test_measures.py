"""Telemetry: times of jobs, from the measures of workers to the points of a series."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import permutations

import pytest

from holdfast.job.what import What
from holdfast.store.contract.measures import (
    EVERY,
    KEPT,
    MOST_PAIRS,
    OTHERS,
    Grain,
    JobTimes,
    Measure,
    PairTimes,
    Point,
    Step,
)
from holdfast.store.contract.telemetry import Traffic
from holdfast.telemetry.sketch import Sketch
from tests.conformance.builders import QUEUE, TASK, Scene
from tests.support.backends import siblings

A, B = "worker-a", "worker-b"
LONG_AGO = timedelta(days=3000)
OVER = 130
"""Seconds after which the minute that is now is closed."""


def times(*runs: float) -> JobTimes:
    return JobTimes(Sketch.of([0.001] * len(runs)), Sketch.of(runs), Sketch.of(runs))


def measure(
    scene: Scene,
    *runs: float,
    source: str = A,
    queue: str = QUEUE,
    task: str = TASK,
    number: int = 1,
    at: datetime | None = None,
) -> Measure:
    minute = Step.MINUTE.start_of(at or scene.clock.now)
    return Measure(minute, source, queue, task, number, times(*runs))


async def series(
    scene: Scene,
    step: Step = Step.MINUTE,
    grain: Grain = Grain.TASK,
    queues: Sequence[str] = (),
    tasks: Sequence[str] = (),
) -> list[Point]:
    now = scene.clock.now
    return await scene.store.telemetry.series(
        step, now - LONG_AGO, now + LONG_AGO, grain, queues, tasks
    )


async def all_rolled(scene: Scene) -> int:
    """Fold and roll up whatever can be by now."""
    while await scene.store.telemetry.fold(1000):
        pass
    return await scene.store.telemetry.roll_up(100)


def runs(points: Sequence[Point]) -> list[int]:
    return [point.times.run.count for point in points]


async def test_a_store_without_measures_has_no_times(scene: Scene) -> None:
    books = scene.store.telemetry
    assert await series(scene) == []
    assert await books.times() == []
    assert await books.roll_up(10) == 0
    assert await books.prune_measures(10) == 0
    assert await books.record([]) <= scene.clock.now


async def test_what_is_recorded_can_be_read_at_once(scene: Scene) -> None:
    given = measure(scene, 0.5, 2.0)
    closed = await scene.store.telemetry.record([given])
    assert closed <= given.minute
    assert await series(scene) == [Point(given.minute, QUEUE, TASK, {}, given.times)]
    assert await scene.store.telemetry.times() == [PairTimes(QUEUE, TASK, given.times)]


async def test_the_measures_of_several_workers_are_added(scene: Scene) -> None:
    one, other = measure(scene, 0.5), measure(scene, 2.0, 3.0, source=B)
    await scene.store.telemetry.record([one])
    await scene.store.telemetry.record([other])
    [point] = await series(scene)
    assert point.times == JobTimes(
        Sketch.of([0.001] * 3), Sketch.of([0.5, 2.0, 3.0]), Sketch.of([0.5, 2.0, 3.0])
    )


@pytest.mark.parametrize("order", list(permutations((1, 2, 3))))
async def test_flushes_that_are_repeated_or_out_of_order_leave_the_same_rows(
    scene: Scene, order: tuple[int, ...]
) -> None:
    """A flush says all that was measured so far, so the newest of them is all there is to know."""
    flushes = {n: [measure(scene, *[1.0] * n, number=n)] for n in (1, 2, 3)}
    for number in (*order, order[-1], order[0]):
        await scene.store.telemetry.record(flushes[number])
    assert runs(await series(scene)) == [3]
    assert [one.times.run.count for one in await scene.store.telemetry.times()] == [3]


async def test_a_call_that_has_a_measure_twice_takes_the_newer_one(scene: Scene) -> None:
    newer, older = measure(scene, 1.0, 2.0, number=2), measure(scene, 1.0)
    await scene.store.telemetry.record([newer, older])
    assert runs(await series(scene)) == [2]


async def test_a_minute_is_rolled_up_once_when_it_is_over_for_a_while(scene: Scene) -> None:
    books = scene.store.telemetry
    await books.record([measure(scene, 0.5), measure(scene, 0.7, source=B)])
    assert await all_rolled(scene) == 0
    scene.clock.advance(60)
    assert await all_rolled(scene) == 0
    before = await series(scene), await books.times()
    scene.clock.advance(60)
    assert await all_rolled(scene) == 1
    assert (await series(scene), await books.times()) == before
    assert await all_rolled(scene) == 0
    assert (await series(scene), await books.times()) == before


async def test_a_measure_of_a_closed_minute_is_not_taken_and_that_is_said(scene: Scene) -> None:
    books = scene.store.telemetry
    late = measure(scene, 5.0, source=B)
    await books.record([measure(scene, 0.5)])
    scene.clock.advance(OVER)
    await all_rolled(scene)
    in_time = measure(scene, 7.0)
    assert await books.record([late, in_time]) == late.minute + timedelta(minutes=1)
    assert [point.at for point in await series(scene)] == [late.minute, in_time.minute]
    assert runs(await series(scene)) == [1, 1]


async def test_counts_come_from_the_books(scene: Scene) -> None:
    await scene.enqueue_many(3)
    await scene.finish((await scene.claim(1))[0])
    counts = {What.ENQUEUED: 3, What.CLAIMED: 1, What.SUCCEEDED: 1}
    [point] = await series(scene)
    assert point.counts == counts
    scene.clock.advance(OVER)
    assert await all_rolled(scene) == 1
    for step in Step:
        [point] = await series(scene, step)
        assert (point.counts, point.at) == (counts, step.start_of(scene.after(-OVER)))


async def test_rolling_up_changes_no_answer(scene: Scene) -> None:
    """Six hours of minutes, read after each step of the way at every step and grain."""

    async def answers() -> list[list[Point]]:
        return [await series(scene, step, grain) for step in Step for grain in Grain]

    for n in range(12):
        await scene.enqueue_many(n + 1, queue=f"queue-{n % 2}")
        pairs = [("queue-0", TASK), ("queue-1", TASK), ("queue-1", "other")]
        await scene.store.telemetry.record(
            [
                measure(scene, 0.1 * (n + 1), queue=queue, task=task)
                for queue, task in pairs[n % 2 :]
            ]
        )
        scene.clock.advance(1800)
    before = await answers()
    assert await scene.store.telemetry.fold(1000) > 0
    assert await answers() == before
    assert [await scene.store.telemetry.roll_up(5) for _ in range(4)] == [5, 5, 2, 0]
    assert await answers() == before
    assert sum(point.counts[What.ENQUEUED] for point in before[0]) == sum(range(13))


@pytest.mark.parametrize("rolled", [False, True], ids=["open", "rolled"])
async def test_a_series_is_told_by_grain_and_narrowed_by_names(scene: Scene, rolled: bool) -> None:
    pairs = [("a", "x"), ("a", "y"), ("b", "x")]
    for queue, task in pairs:
        await scene.enqueue(task, queue=queue)
    await scene.store.telemetry.record(
        [measure(scene, 1.0, queue=queue, task=task) for queue, task in pairs]
    )
    if rolled:
        scene.clock.advance(OVER)
        await all_rolled(scene)

    async def names(grain: Grain, queues: Sequence[str] = (), tasks: Sequence[str] = ()) -> object:
        found = await series(scene, Step.MINUTE, grain, queues, tasks)
        return [
            (one.queue, one.task, one.counts[What.ENQUEUED], one.times.run.count) for one in found
        ]

    assert await names(Grain.ALL) == [(EVERY, EVERY, 3, 3)]
    assert await names(Grain.QUEUE) == [("a", EVERY, 2, 2), ("b", EVERY, 1, 1)]
    assert await names(Grain.QUEUE, ["b"]) == [("b", EVERY, 1, 1)]
    assert await names(Grain.TASK) == [(*pair, 1, 1) for pair in pairs]
    assert await names(Grain.TASK, ["a"]) == [("a", "x", 1, 1), ("a", "y", 1, 1)]
    assert await names(Grain.TASK, (), ["x"]) == [("a", "x", 1, 1), ("b", "x", 1, 1)]
    assert await names(Grain.TASK, ["a", "b"], ["y", "none"]) == [("a", "y", 1, 1)]
    assert await names(Grain.TASK, ["none"]) == []


async def test_a_series_has_the_steps_that_begin_within_its_span(scene: Scene) -> None:
    start = Step.MINUTE.start_of(scene.clock.now)
    for _ in range(4):
        await scene.store.telemetry.record([measure(scene, 1.0)])
        scene.clock.advance(60)
    await scene.store.telemetry.roll_up(2)
    found = await scene.store.telemetry.series(
        Step.MINUTE, start + timedelta(minutes=1), start + timedelta(minutes=3), Grain.ALL
    )
    assert [point.at for point in found] == [start + timedelta(minutes=n) for n in (1, 2)]


async def test_two_replicas_that_roll_up_at_once_add_nothing_twice(scene: Scene) -> None:
    async with siblings(scene.store, 2) as (one, other):
        for n in range(4):
            await scene.enqueue()
            await scene.store.telemetry.record([measure(scene, float(n + 1))])
            scene.clock.advance(60)
        scene.clock.advance(OVER)
        while await one.telemetry.fold(100):
            pass
        rolled = 0
        while rolled < 4:
            some = await asyncio.gather(*(each.telemetry.roll_up(2) for each in (one, other)))
            rolled += sum(some)
        assert (rolled, await one.telemetry.roll_up(9)) == (4, 0)
    for step in Step:
        points = await series(scene, step, Grain.ALL)
        assert sum(point.counts[What.ENQUEUED] for point in points) == sum(runs(points)) == 4
    [pair] = await scene.store.telemetry.times()
    assert pair.times.run.count == 4


async def test_a_minute_is_not_closed_before_its_moves_are_folded(scene: Scene) -> None:
    """Nobody folds while no worker runs. What was counted then belongs to its own minutes."""
    await scene.enqueue()
    first = Step.MINUTE.start_of(scene.clock.now)
    await scene.store.telemetry.record([measure(scene, 1.0)])
    scene.clock.advance(3600)
    assert await scene.store.telemetry.roll_up(10) == 0
    assert await all_rolled(scene) == 1
    [point] = await series(scene, Step.MINUTE, Grain.ALL)
    assert (point.at, point.counts) == (first, {What.ENQUEUED: 1})


async def test_too_many_pairs_are_added_up_under_the_others(scene: Scene) -> None:
    many = [
        measure(scene, 1.0, queue=f"queue-{n % 2}", task=f"task-{n:05}")
        for n in range(MOST_PAIRS + 5)
    ]
    await scene.store.telemetry.record(many)
    scene.clock.advance(OVER)
    await all_rolled(scene)
    points = await series(scene, Step.HOUR)
    assert len(points) <= MOST_PAIRS + 2
    assert sum(runs(points)) == MOST_PAIRS + 5
    assert {point.queue for point in points if point.task == OTHERS} <= {"queue-0", "queue-1"}
    assert sum(runs([point for point in points if point.task == OTHERS])) == 5
    assert runs(await series(scene, Step.HOUR, Grain.ALL)) == [MOST_PAIRS + 5]


async def test_times_never_become_less_whatever_is_rolled_up_or_removed(scene: Scene) -> None:
    seen = 0
    for n in range(5):
        await scene.store.telemetry.record([measure(scene, 1.0, 2.0)])
        scene.clock.advance(3600)
        await all_rolled(scene)
        await scene.store.telemetry.prune_measures(100)
        [pair] = await scene.store.telemetry.times()
        assert pair.times.run.count == 2 * (n + 1) > seen
        seen = pair.times.run.count
    scene.clock.advance(500 * 86_400)
    while await scene.store.telemetry.prune_measures(100):
        pass
    [pair] = await scene.store.telemetry.times()
    assert pair.times.run.count == seen
    assert await series(scene, Step.DAY) == []


async def test_points_are_kept_as_long_as_their_step_and_grain_say(scene: Scene) -> None:
    await scene.store.telemetry.record([measure(scene, 1.0)])
    scene.clock.advance(OVER)
    await all_rolled(scene)

    async def kept() -> set[tuple[Step, Grain]]:
        return {(step, grain) for step, grain in KEPT if await series(scene, step, grain)}

    assert await kept() == set(KEPT)
    for seconds in sorted(set(KEPT.values())):
        scene.clock.advance(seconds)
        while await scene.store.telemetry.prune_measures(2):
            pass
        assert not {key for key in await kept() if KEPT[key] <= seconds}
    assert await kept() == set()


async def test_the_timeline_equals_the_books_whoever_folds_and_rolls_up(scene: Scene) -> None:
    """Enqueues, claims and ends over an hour, while replicas take turns at folding and rolling up,
    as they do when a leader leaves."""
    async with siblings(scene.store, 2) as replicas:
        for n in range(20):
            await scene.enqueue_many(n % 7 + 1, queue=f"queue-{n % 3}")
            for job in await scene.claim(2, f"queue-{n % 3}"):
                await scene.finish(job)
            scene.clock.advance(170)
            books = replicas[n % 2].telemetry
            await books.fold(3)
            await books.roll_up(1)
        totals = Counter[What]()
        for total in await scene.store.telemetry.totals():
            totals[total.what] += total.jobs
        for step in Step:
            for grain in Grain:
                counted = Counter[What]()
                for point in await series(scene, step, grain):
                    counted.update(point.counts)
                assert counted == totals


async def test_traffic_and_series_tell_the_same(scene: Scene) -> None:
    for _ in range(3):
        await scene.enqueue_many(2)
        scene.clock.advance(60)
    scene.clock.advance(OVER)
    await all_rolled(scene)
    now = scene.clock.now
    told = [
        Traffic(point.at, point.queue, point.task, what, jobs)
        for point in await series(scene)
        for what, jobs in point.counts.items()
    ]
    assert sorted(told) == await scene.store.telemetry.traffic(now - LONG_AGO, now + LONG_AGO)
