"""The metrics of a store: the same on every store, exact, and never going down."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from holdfast.client.client import Client
from holdfast.errors import StoreUnavailable
from holdfast.insights.figures import figures_of, read_figures
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from tests.conformance.builders import RAISED, TASK, Scene
from tests.conformance.planning import NAME, Diary
from tests.conformance.test_measures import measure
from tests.support.backends import siblings
from tests.unit.test_metrics import by, read


async def told(scene: Scene) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    return read(await Client(scene.store).telemetry.metrics())


async def test_an_empty_store_is_up_and_has_its_worker(scene: Scene) -> None:
    found = await told(scene)
    assert found["holdfast_store_up"] == {by(store=scene.store.kind): 1}
    assert found["holdfast_workers"][by(state="alive")] == 1
    assert "holdfast_jobs_total" not in found


async def test_jobs_are_told_by_queue_task_state_and_move(scene: Scene) -> None:
    await scene.enqueue_many(3, queue="a")
    scene.clock.advance(1.5)
    await scene.ended(RAISED)
    await scene.store.queues.pause(["a"])
    found = await told(scene)
    moves, jobs = found["holdfast_jobs_total"], found["holdfast_queue_jobs"]
    assert moves[by(queue="a", task=TASK, what="enqueued")] == 3
    assert moves[by(queue="default", task=TASK, what="retried")] == 1
    assert moves[by(queue="default", task=TASK, what="failed")] == 0
    assert jobs[by(queue="a", state="ready")] == 3
    assert jobs[by(queue="default", state="scheduled")] == 1
    assert found["holdfast_queue_lag_seconds"][by(queue="a")] == pytest.approx(1.5, abs=0.001)
    assert found["holdfast_queue_paused"][by(queue="a")] == 1
    assert found["holdfast_queue_unserved"][by(queue="a")] == 1


async def test_a_late_schedule_is_told(scene: Scene) -> None:
    diary = await Diary.of(scene, cron="* * * * *")
    await diary.schedules.advance(NAME, "", scene.clock.now)
    scene.clock.advance(600)
    await diary.schedules.complain(NAME, "no such provider")
    found = await told(scene)
    late = found["holdfast_schedule_lateness_seconds"][by(schedule=NAME)]
    assert 500 < late <= 600
    assert found["holdfast_schedule_failing"] == {by(schedule=NAME): 1}
    await diary.schedules.advance(NAME, "", scene.clock.now)
    found = await told(scene)
    assert found["holdfast_schedule_lateness_seconds"] == {by(schedule=NAME): 0}


async def test_no_counter_goes_down_whatever_happens_to_jobs_and_programs(scene: Scene) -> None:
    """Jobs end, are pruned and deleted, the books are folded, and another program asks."""
    seen: dict[tuple[tuple[str, str], ...], float] = {}

    async def look(scene: Scene) -> None:
        every = await told(scene)
        found = every["holdfast_jobs_total"] | every.get("holdfast_job_run_seconds_bucket", {})
        assert [at for at, number in seen.items() if found.get(at, 0) < number] == []
        seen.update(found)

    for state in JobState:
        await scene.in_state(state, queue=state)
        await scene.store.telemetry.record([measure(scene, 0.1, 20.0, queue=state)])
        await look(scene)
    assert len(seen) > 100
    scene.clock.advance(minutes=3)
    while await scene.store.telemetry.fold(7) or await scene.store.telemetry.roll_up(1):
        await look(scene)
    async with siblings(scene.store, 1) as [other]:
        await look(scene.through(other))
    scene.clock.advance(hours=24 * 400)
    await scene.store.jobs.prune(100)
    await scene.store.telemetry.prune_measures(1000)
    while await scene.store.telemetry.fold(7):
        await look(scene)
    await look(scene)


async def test_a_scrape_opens_a_store_and_leaves_nothing_behind(scene: Scene) -> None:
    await scene.enqueue(queue="a")
    figures = await figures_of(scene.store.sibling())
    assert [queue.name for queue in figures.queues if queue.counts] == ["a"]


async def test_a_scrape_is_bounded_in_time_and_tells_that_the_store_is_down(scene: Scene) -> None:
    """Nothing can be read in no time at all."""
    with pytest.raises(StoreUnavailable, match="did not answer within 0 s"):
        await read_figures(scene.store, 0)
    await asyncio.sleep(0)
    text = await Client(scene.store).telemetry.metrics(timeout=0)
    assert read(text)["holdfast_store_up"] == {by(store=scene.store.kind): 0}
    with pytest.raises(StoreUnavailable):
        await Client(scene.store).telemetry.scale(timeout=0)


async def test_what_to_scale_by_is_told_for_each_queue(scene: Scene) -> None:
    await scene.enqueue_many(4, queue="a")
    await scene.enqueue(queue="b", delay=60)
    telemetry = Client(scene.store).telemetry
    assert (await telemetry.scale("a"))["work"] == 4
    assert (await telemetry.scale())["queues"]["b"]["work"] == 0


async def test_a_scrape_asks_the_same_few_questions_however_much_there_is(scene: Scene) -> None:
    """Nothing is asked once for each queue, task or schedule."""
    for number in range(30):
        await Diary.of(scene, f"s{number}")
        await scene.enqueue(f"task{number}", queue=f"q{number % 5}")
    counted = CountedStore(scene.store)
    found = await read_figures(cast(Store, counted))
    assert (len(found.schedules), len(found.queues)) == (30, 5)
    assert counted.asked == [
        *("now", "schedules.find", "schedules.own_cursors", "telemetry.totals"),
        *("telemetry.tallies", "queues.find", "queues.paused", "workers.find", "workers.counts"),
        "telemetry.times",
    ]


class CountedStore:
    """Hands every verb on, and notes its name."""

    def __init__(self, inner: object, asked: list[str] | None = None, noun: str = "") -> None:
        self._inner = inner
        self._noun = noun
        self.asked: list[str] = [] if asked is None else asked

    def __getattr__(self, name: str) -> object:
        found = getattr(self._inner, name)
        if callable(found):
            self.asked.append(f"{self._noun}{name}")
            return found
        return found if name == "kind" else CountedStore(found, self.asked, f"{name}.")
