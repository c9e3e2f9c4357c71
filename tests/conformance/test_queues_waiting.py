"""waiting: the queues that have a ready job, for workers that serve whatever queues there are."""

from __future__ import annotations

from holdfast.job.state import JobState
from holdfast.store.contract.queues import QueueSettings
from tests.conformance.builders import Scene


async def test_a_new_store_has_no_queue_in_which_jobs_wait(scene: Scene) -> None:
    await scene.store.queues.ensure({"known": QueueSettings()})
    assert await scene.store.queues.waiting() == []


async def test_each_queue_with_a_ready_job_is_named_once(scene: Scene) -> None:
    for queue in ("b", "a", "c:1", "b", "c:1"):
        await scene.enqueue(queue=queue)
    assert await scene.store.queues.waiting() == ["a", "b", "c:1"]


async def test_only_ready_jobs_count(scene: Scene) -> None:
    await scene.enqueue(queue="later", delay=60.0)
    await scene.in_state(JobState.RUNNING, queue="busy")
    await scene.in_state(JobState.FAILED, queue="over")
    assert await scene.store.queues.waiting() == []


async def test_a_paused_queue_is_named_too(scene: Scene) -> None:
    await scene.enqueue(queue="held")
    await scene.store.queues.pause(["held"])
    assert await scene.store.queues.waiting() == ["held"]
