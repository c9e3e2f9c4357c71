"""Labels: which workers a job may be given to."""

from __future__ import annotations

import pytest

from holdfast.job.ends import HandedBack
from holdfast.store.contract.queues import QueueSettings
from tests.conformance.builders import QUEUE, RAISED, TASK, Scene
from tests.conformance.limiting import in_use, limited, nothing_is_wrong, of, through


async def test_a_job_goes_only_to_a_worker_that_has_its_labels(scene: Scene) -> None:
    job = await scene.enqueue(**through(labels=["gpu"]))
    assert await scene.claim(10) == []
    assert await scene.claim(10, labels=["eu"]) == []
    assert of(await scene.claim(10, labels=["eu", "gpu"])) == [job]


async def test_all_labels_are_needed(scene: Scene) -> None:
    job = await scene.enqueue(**through(labels=["gpu", "eu"]))
    assert await scene.claim(10, labels=["gpu"]) == []
    assert of(await scene.claim(10, labels=["gpu", "eu", "big"])) == [job]


async def test_a_worker_with_labels_takes_jobs_that_need_none(scene: Scene) -> None:
    await limited(scene, tenant=5)
    plain, with_limits = await scene.enqueue(), await scene.enqueue(**through("tenant:a"))
    assert set(of(await scene.claim(10, labels=["gpu"]))) == {plain, with_limits}


async def test_who_cannot_be_served_holds_up_nobody_else(scene: Scene) -> None:
    await limited(scene, tenant=3)
    special = await scene.enqueue_many(30, **through("tenant:a", labels=["gpu"]))
    others = await scene.enqueue_many(3, **through("tenant:a"))
    plain = await scene.enqueue_many(3)
    assert set(of(await scene.claim(20))) == {*others, *plain}
    assert await in_use(scene, "tenant:a") == 3
    assert await scene.claim(20, labels=["gpu"]) == [], "they share the bucket"
    assert special
    await nothing_is_wrong(scene)


async def test_a_job_keeps_its_labels(scene: Scene) -> None:
    await scene.enqueue(**through(labels=["gpu"]))
    [held] = await scene.claim(1, labels=["gpu"])
    await scene.finish(held, HandedBack())
    assert await scene.claim(1) == []
    [held] = await scene.claim(1, labels=["gpu"])
    await scene.finish(held, RAISED)
    scene.clock.advance(60)
    await scene.store.jobs.promote_due(10)
    assert await scene.claim(1) == []
    assert len(await scene.claim(1, labels=["gpu"])) == 1


async def test_a_job_with_labels_ends_as_any_other(scene: Scene) -> None:
    await scene.enqueue(**through(labels=["gpu"]))
    [held] = await scene.claim(1, labels=["gpu"])
    assert (await scene.finish(held)).accepted
    assert (await scene.store.limits.recount(10)).buckets == 0


async def test_jobs_that_need_other_labels_are_held_up(scene: Scene) -> None:
    await scene.enqueue_many(3, **through(labels=["gpu"]))
    await scene.enqueue_many(2, **through(labels=["gpu", "eu"]))
    await scene.enqueue()

    async def held_up(*labels: str) -> int:
        return await scene.store.limits.held_up([QUEUE], [TASK], labels)

    assert [await held_up(), await held_up("gpu"), await held_up("gpu", "eu")] == [5, 2, 0]
    assert await scene.store.limits.held_up([QUEUE], [TASK]) == 0


async def test_a_worker_with_only_takes_nothing_that_does_not_need_those_labels(
    scene: Scene,
) -> None:
    await limited(scene, tenant=5)
    plain, with_limits = await scene.enqueue(), await scene.enqueue(**through("tenant:a"))
    eu = await scene.enqueue(**through(labels=["eu"]))
    gpu = await scene.enqueue(**through(labels=["gpu"]))
    both = await scene.enqueue(**through("tenant:a", labels=["eu", "gpu"]))
    assert of(await scene.claim(10, labels=["gpu"], only=["gpu"])) == [gpu]
    assert of(await scene.claim(10, labels=["eu", "gpu"], only=["eu", "gpu"])) == [both]
    assert await scene.claim(10, labels=["eu", "gpu"], only=["gpu"]) == []
    assert set(of(await scene.claim(10, labels=["eu"]))) == {plain, with_limits, eu}
    await nothing_is_wrong(scene)


async def test_only_is_no_part_of_another_label(scene: Scene) -> None:
    await scene.enqueue(**through(labels=["gpu-big"]))
    assert await scene.claim(10, labels=["gpu", "gpu-big"], only=["gpu"]) == []


async def test_a_worker_with_only_in_a_queue_without_lines_gets_nothing(scene: Scene) -> None:
    job = await scene.enqueue()
    assert await scene.claim(10, labels=["gpu"], only=["gpu"]) == []
    assert of(await scene.claim(10)) == [job]


@pytest.mark.usefixtures("totals")
async def test_a_worker_with_only_heeds_aging_and_totals(scene: Scene) -> None:
    settings = QueueSettings(aging=10.0, max_running=1)
    await scene.store.queues.tune(QUEUE, settings)
    await scene.enqueue_many(3)
    late = await scene.enqueue(priority=3, **through(labels=["gpu"]))
    scene.clock.advance(60)
    soon = await scene.enqueue(priority=0, **through(labels=["gpu"]))
    [held] = await scene.claim(10, labels=["gpu"], only=["gpu"])
    assert held.id == late
    assert await scene.claim(10, labels=["gpu"], only=["gpu"]) == []
    await scene.finish(held)
    assert of(await scene.claim(10, labels=["gpu"], only=["gpu"])) == [soon]
