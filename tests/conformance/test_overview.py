"""The overview: one answer for the first page, right on every store and bounded."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

import pytest

from holdfast.insights.overview import OverviewReader
from holdfast.job.ids import new_worker_id
from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.store.contract.health import Severity
from holdfast.store.contract.measures import JobTimes, Measure, Step
from holdfast.store.contract.operations import OperationRequest, new_operation_id
from holdfast.store.contract.store import Store
from holdfast.telemetry.sketch import Sketch
from tests.conformance.builders import FAILED, QUEUE, TASK, Scene
from tests.conformance.test_metrics import CountedStore

ASKED = [
    *("workers.find", "queues.find", "queues.paused", "telemetry.series", "failures.find"),
    "operations.find",
]


async def test_an_empty_store_has_an_overview(scene: Scene) -> None:
    await scene.store.workers.deregister(scene.worker)
    found = await OverviewReader(scene.store).read()
    assert (found.kind, found.counts, found.queues) == (scene.store.kind, {}, [])
    assert (found.wait.p50, found.run.p99, found.minutes, found.failures) == (None, None, [], [])
    assert abs(found.now - scene.clock.now) < timedelta(seconds=1)


async def test_the_first_page_is_one_answer(scene: Scene) -> None:
    await scene.ended()
    await scene.ended(FAILED)
    await scene.enqueue_many(3)
    await scene.enqueue(queue="lonely")
    await scene.store.queues.pause(["quiet"])
    await scene.store.operations.begin(new_operation_id(), OperationRequest(verb="cancel"))
    minute = Step.MINUTE.start_of(scene.clock.now)
    times = JobTimes(Sketch.of([0.5] * 100), Sketch.of([2.0] * 100), Sketch.of([2.5] * 100))
    await scene.store.telemetry.record([Measure(minute, new_worker_id(), QUEUE, TASK, 1, times)])
    scene.clock.advance(5)
    found = await OverviewReader(scene.store).read()
    assert found.counts == {JobState.READY: 4, JobState.SUCCEEDED: 1, JobState.FAILED: 1}
    assert {queue.name for queue in found.queues} == {QUEUE, "lonely", "quiet"}
    assert [one.id for one in found.workers] == [scene.worker]
    assert [one.severity for one in found.alarms] == [Severity.PROBLEM]
    assert "'lonely'" in found.alarms[0].saw
    moved = [minute.counts.get(What.ENQUEUED, 0) for minute in found.minutes]
    assert sum(moved) == 6
    assert found.wait.p50 == pytest.approx(0.5, rel=0.03)
    assert found.run.p99 == pytest.approx(2.0, rel=0.03)
    [failure] = found.failures
    assert (failure.task, failure.count, failure.dead) == (TASK, 1, 1)
    assert len(found.operations) == 1


async def test_an_overview_asks_six_questions_however_much_there_is(scene: Scene) -> None:
    for number in range(30):
        await scene.enqueue(f"task{number}", queue=f"q{number % 7}")
        await scene.hire(name=f"w{number}")
    counted = CountedStore(scene.store)
    reader = OverviewReader(cast(Store, counted))
    await reader.read()
    assert counted.asked == ASKED
    counted.asked.clear()
    found = await reader.read()
    assert counted.asked == ASKED
    assert (len(found.queues), len(found.workers)) == (7, 31)


async def test_without_workers_the_time_is_asked_for_once(scene: Scene) -> None:
    await scene.store.workers.deregister(scene.worker)
    counted = CountedStore(scene.store)
    reader = OverviewReader(cast(Store, counted))
    await reader.read()
    assert counted.asked == [ASKED[0], "now", *ASKED[1:]]
    counted.asked.clear()
    await reader.read()
    assert counted.asked == ASKED


async def test_failures_and_moves_of_long_ago_are_left_out(scene: Scene) -> None:
    await scene.ended(FAILED)
    scene.clock.advance(7_200)
    found = await OverviewReader(scene.store).read()
    assert (found.minutes, found.failures) == ([], [])
    assert found.counts == {JobState.FAILED: 1}
