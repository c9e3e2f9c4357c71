"""Aging: waiting makes up for a priority."""

from __future__ import annotations

import pytest

from holdfast.job.ends import Cancelled
from holdfast.job.ids import JobId
from holdfast.store.contract.queues import QueueSettings, jobs_of
from tests.conformance.builders import QUEUE, TASK, Scene
from tests.conformance.limiting import limited, of, through


async def ages(scene: Scene, seconds: float | None) -> None:
    await scene.store.queues.tune(QUEUE, QueueSettings(aging=seconds))


async def order(scene: Scene, size: int = 1) -> list[JobId]:
    found: list[JobId] = []
    while claimed := await scene.claim(size):
        found += of(claimed)
    return found


async def test_without_aging_priorities_are_strict(scene: Scene) -> None:
    old = await scene.enqueue(priority=9)
    scene.clock.advance(1000)
    new = await scene.enqueue(priority=0)
    assert await order(scene) == [new, old]


async def test_the_order_is_by_waiting_and_priority(scene: Scene) -> None:
    await ages(scene, 10)
    found: dict[JobId, float] = {}
    for step, priority in enumerate([3, 0, 5, 1, 0, 9, 2, 0, 1, 4]):
        job = await scene.enqueue(priority=priority)
        found[job] = step * 7 + priority * 10
        scene.clock.advance(7)
    expected = sorted(found, key=lambda job: found[job])
    assert await order(scene, 3) == expected


async def test_a_low_priority_begins_beside_an_endless_stream(scene: Scene) -> None:
    await ages(scene, 10)
    low = await scene.enqueue(priority=9)
    for _ in range(90):
        await scene.enqueue(priority=0)
        assert low not in of(await scene.claim(1))
        scene.clock.advance(1)
    await scene.enqueue(priority=0)
    assert low in of(await scene.claim(1)) + of(await scene.claim(1))


async def test_lines_age_too(scene: Scene) -> None:
    await limited(scene, tenant=100)
    await ages(scene, 10)
    old = await scene.enqueue(priority=2, **through("tenant:a"))  # 0 + 20
    scene.clock.advance(15)
    middle = await scene.enqueue(priority=0, **through("tenant:b"))  # 15
    plain = await scene.enqueue(priority=1)  # 15 + 10
    scene.clock.advance(6)
    new = await scene.enqueue(priority=0, **through("tenant:b"))  # 21
    assert await order(scene) == [middle, old, new, plain]


async def test_of_jobs_that_are_equally_old_the_better_priority_goes_first(scene: Scene) -> None:
    await ages(scene, 10)
    older = await scene.enqueue(priority=4)  # 0 + 40
    scene.clock.advance(20)
    better = await scene.enqueue(priority=2)  # 20 + 20
    assert await order(scene) == [better, older]


async def test_aging_may_be_switched_on_and_off(scene: Scene) -> None:
    old = await scene.enqueue(priority=9)
    scene.clock.advance(1000)
    new = [await scene.enqueue(priority=0) for _ in range(2)]
    assert of(await scene.claim(1)) == new[:1]
    await ages(scene, 10)
    assert of(await scene.claim(1)) == [old]
    await ages(scene, None)
    assert of(await scene.claim(1)) == new[1:]


async def test_jobs_of_unknown_tasks_do_not_hold_up_a_queue_that_ages(scene: Scene) -> None:
    await ages(scene, 10)
    await scene.enqueue("unknown", priority=0)
    job = await scene.enqueue(priority=5)
    assert await order(scene) == [job]


@pytest.mark.parametrize("is_paused", [False, True])
async def test_a_line_that_lost_its_last_job_hides_nobody_of_its_priority(
    scene: Scene, is_paused: bool
) -> None:
    """Lines are known from a claim on, also from one of a worker that knows none of their tasks."""
    await ages(scene, 10)
    await limited(scene, tenant=5)
    gone = await scene.enqueue("wave", **through("tenant:a"))
    job = await scene.enqueue(**through("tenant:b"))
    assert await scene.claim(5, tasks=["another"]) == []
    assert (await scene.finish(await scene.live(gone), Cancelled())).accepted
    if is_paused:
        await scene.store.queues.pause([jobs_of("wave")])
    assert of(await scene.claim(5, tasks=["wave", TASK])) == [job]
