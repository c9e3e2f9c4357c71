"""Jobs.reprioritise: an operator lets a waiting job jump the line, or fall back."""

from __future__ import annotations

import pytest

from holdfast.job.ids import new_job_id
from holdfast.job.state import WAITING, JobState
from tests.conformance.builders import REACHABLE, Scene


async def test_an_empty_batch_changes_nothing(scene: Scene) -> None:
    assert await scene.store.jobs.reprioritise([], 5) == []


async def test_a_ready_job_moves_in_line(scene: Scene) -> None:
    first, second, third = await scene.enqueue_many(3)
    assert await scene.store.jobs.reprioritise([third], -1) == [third]
    assert await scene.store.jobs.reprioritise([first], 1) == [first]
    assert await scene.line() == [third, second, first]


async def test_jobs_of_one_new_priority_keep_their_order(scene: Scene) -> None:
    jobs = await scene.enqueue_many(4)
    await scene.store.jobs.reprioritise([jobs[2], jobs[0]], -1)
    assert await scene.line() == [jobs[0], jobs[2], jobs[1], jobs[3]]


@pytest.mark.parametrize("state", [state for state in REACHABLE if state in WAITING])
async def test_a_waiting_job_is_changed(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state)
    assert await scene.store.jobs.reprioritise([job, job], -9) == [job]
    changed = await scene.job(job)
    assert (changed.priority, changed.state) == (-9, state)


@pytest.mark.parametrize("state", [state for state in REACHABLE if state not in WAITING])
async def test_any_other_job_is_left_alone(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state)
    before = await scene.job(job)
    assert await scene.store.jobs.reprioritise([job, new_job_id()], -9) == []
    assert await scene.job(job) == before


async def test_the_priority_lasts_through_the_next_attempt(scene: Scene) -> None:
    job = await scene.enqueue(delay=1.0)
    await scene.store.jobs.reprioritise([job], -2)
    await scene.store.jobs.reschedule([job], 0)
    assert (await scene.claim_one()).priority == -2
