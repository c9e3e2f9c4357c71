"""Jobs.move: an operator puts a waiting job in another queue."""

from __future__ import annotations

import pytest

from holdfast.job.ids import new_job_id
from holdfast.job.state import WAITING, JobState
from holdfast.store.contract.filters import JobFilter
from tests.conformance.builders import QUEUE, REACHABLE, Scene, ids


async def test_an_empty_batch_moves_nothing(scene: Scene) -> None:
    assert await scene.store.jobs.move([], "other") == []


async def test_a_moved_job_is_served_by_its_new_queue_alone(scene: Scene) -> None:
    job = await scene.enqueue()
    assert await scene.store.jobs.move([job, job], "other") == [job]
    assert await scene.claim(10) == []
    claimed = await scene.claim(10, "other")
    assert (ids(claimed), claimed[0].queue) == ([job], "other")


@pytest.mark.parametrize("state", [state for state in REACHABLE if state in WAITING])
async def test_a_waiting_job_is_moved(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state)
    assert await scene.store.jobs.move([job], "other") == [job]
    moved = await scene.job(job)
    assert (moved.queue, moved.state) == ("other", state)


@pytest.mark.parametrize("state", [state for state in REACHABLE if state not in WAITING])
async def test_any_other_job_is_left_alone(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state)
    before = await scene.job(job)
    assert await scene.store.jobs.move([job, new_job_id()], "other") == []
    assert await scene.job(job) == before


async def test_a_moved_job_stays_in_its_new_queue(scene: Scene) -> None:
    job = await scene.enqueue(delay=1.0)
    await scene.store.jobs.move([job], "other")
    scene.clock.advance(2)
    assert (await scene.store.jobs.promote_due(10)).queues == ("other",)
    await scene.finish(await scene.claim_one("other"))
    assert (await scene.job(job)).queue == "other"
    await scene.store.jobs.requeue([job])
    assert ids(await scene.claim(10, "other")) == [job]
    assert await scene.claim(10, QUEUE) == []


async def test_a_moved_job_is_found_by_its_new_queue(scene: Scene) -> None:
    job = await scene.enqueue()
    await scene.store.jobs.move([job], "other")
    page = await scene.store.jobs.page(JobFilter(queues=("other",)), 10)
    assert ids(page.jobs) == [job]
    assert await scene.store.jobs.count(JobFilter(queues=(QUEUE,))) == {}
