"""Defects that telemetry of job queues is known for, each as a test that it is not here."""

from __future__ import annotations

import asyncio
import math
import random
from datetime import timedelta

import pytest

from holdfast.clock import ManualClock
from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.store.contract.measures import Grain, JobTimes, Measure, Point, Step
from holdfast.store.contract.store import Store
from holdfast.telemetry.sketch import Sketch
from tests.conformance.builders import Scene
from tests.support.backends import siblings
from tests.support.waiting import wait_until
from tests.support.working import Shop

LONG = timedelta(days=400)


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> Scene:
    return await Scene.on(store, clock)


async def series(store: Store, step: Step, grain: Grain = Grain.ALL) -> list[Point]:
    now = await store.now()
    return await store.telemetry.series(step, now - LONG, now + LONG, grain)


def measure(scene: Scene, source: str, *runs: float) -> Measure:
    minute = Step.MINUTE.start_of(scene.clock.now)
    return Measure(minute, source, "a", "b", 1, JobTimes(Sketch(), Sketch.of(runs), Sketch()))


async def test_the_percentile_of_an_hour_is_had_from_its_minutes(scene: Scene) -> None:
    """Percentiles by minute cannot be merged: the mean of sixty p99 is no p99."""
    chance = random.Random(3)
    every: list[float] = []
    scene.clock.now = Step.DAY.start_of(scene.clock.now)
    for minute in range(20):
        runs = [chance.lognormvariate(-3, 1.5) * (50 if minute == 7 else 1) for _ in range(50)]
        every += runs
        await scene.store.telemetry.record([measure(scene, "w", *runs)])
        scene.clock.advance(60)
    scene.clock.advance(120)
    assert await scene.store.telemetry.roll_up(100) == 20
    [hour] = await series(scene.store, Step.HOUR)
    for share in (0.5, 0.95, 0.99):
        true = sorted(every)[math.ceil(share * len(every)) - 1]
        assert hour.times.run.quantile(share) == pytest.approx(true, rel=0.022)


async def test_no_time_is_cut_off_however_many_there_are(scene: Scene) -> None:
    """Times beyond 50,000 in a window were left out, silently, and so the slow ones at its end."""
    slow_at_the_end = Sketch()
    slow_at_the_end.observe(0.01, 99_000)
    for _ in range(1_000):
        slow_at_the_end.observe(60.0)
    one = measure(scene, "w")
    times = JobTimes(Sketch(), slow_at_the_end, Sketch())
    await scene.store.telemetry.record([Measure(*one.key, 1, times)])
    scene.clock.advance(180)
    await scene.store.telemetry.roll_up(1)
    [minute] = await series(scene.store, Step.MINUTE)
    assert minute.times.run.count == 100_000
    assert minute.times.run.quantile(0.995) == pytest.approx(60.0, rel=0.022)


async def test_rows_do_not_grow_with_jobs(live_store: Store) -> None:
    """One row was written for each event of a job. A worker writes one for each task and minute."""
    calls: list[int] = []
    record = live_store.telemetry.record

    async def counting(measures: list[Measure]) -> object:
        calls.append(len(measures))
        return await record(measures)

    live_store.telemetry.record = counting  # type: ignore[method-assign,assignment]

    async def noop() -> None: ...

    shop = Shop(live_store, noop)
    await asyncio.gather(*(shop.enqueue(noop) for _ in range(200)))
    async with shop.worker() as worker:
        await worker.drain()
    assert sum(calls) <= 2, "one row, or two where a minute has just begun"
    points = await series(live_store, Step.DAY)
    assert sum(point.times.run.count for point in points) == 200
    assert sum(point.counts[What.SUCCEEDED] for point in points) == 200


async def test_the_figures_of_all_workers_are_kept_and_not_only_the_leaders(scene: Scene) -> None:
    async with siblings(scene.store, 2) as (one, other):
        await one.telemetry.record([measure(scene, "one", 1.0)])
        await other.telemetry.record([measure(scene, "other", 2.0, 3.0)])
        scene.clock.advance(180)
        await one.telemetry.roll_up(1)
        [point] = await series(other, Step.MINUTE)
        assert point.times.run.count == 3


async def test_what_runs_now_is_counted_where_it_is_and_not_from_sums_of_events(
    live_store: Store,
) -> None:
    """In-flight was a sum of events, so a flush that was lost bent it for ever. Here no flush ever
    arrives, and the books are exact all the same."""

    async def lost(measures: list[Measure]) -> object:
        raise OSError("lost")

    live_store.telemetry.record = lost  # type: ignore[method-assign,assignment]
    release = asyncio.Event()

    async def holds() -> None:
        await release.wait()

    async def fine() -> None: ...

    shop = Shop(live_store, holds, fine)
    for _ in range(3):
        await shop.enqueue(fine)
    for _ in range(2):
        await shop.enqueue(holds)
    async with shop.worker() as worker:

        async def tallied(state: JobState) -> int:
            found = await live_store.telemetry.tallies()
            return sum(tally.jobs for tally in found if tally.state is state)

        async def all_began() -> bool:
            return (await tallied(JobState.SUCCEEDED), await tallied(JobState.RUNNING)) == (3, 2)

        await wait_until(all_began, 10, "three are done, and two run")
        release.set()
        await worker.drain()
        assert (await tallied(JobState.RUNNING), await tallied(JobState.SUCCEEDED)) == (0, 5)
    assert worker.health()["telemetry_dropped"] == 5
