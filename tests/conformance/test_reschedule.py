"""Jobs.reschedule: an operator moves a waiting job in time."""

from __future__ import annotations

import pytest

from holdfast.job.ids import new_job_id
from holdfast.job.state import JobState
from tests.conformance.builders import REACHABLE, Scene

MOVABLE = (JobState.READY, JobState.SCHEDULED)


async def test_an_empty_batch_reschedules_nothing(scene: Scene) -> None:
    assert await scene.store.jobs.reschedule([], 60) == []


@pytest.mark.parametrize("state", MOVABLE)
async def test_a_waiting_job_is_made_due_later(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state)
    assert await scene.store.jobs.reschedule([job], 60) == [job]
    moved = await scene.job(job)
    assert (moved.state, moved.due_at) == (JobState.SCHEDULED, scene.after(60))
    assert await scene.claim(10) == []


@pytest.mark.parametrize("state", MOVABLE)
async def test_a_waiting_job_is_made_due_at_a_moment(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state)
    assert await scene.store.jobs.reschedule([job], scene.after(90)) == [job]
    moved = await scene.job(job)
    assert (moved.state, moved.due_at) == (JobState.SCHEDULED, scene.after(90))
    assert await scene.store.jobs.reschedule([job], scene.after(-5)) == [job]
    assert await scene.state(job) is JobState.READY


async def test_a_scheduled_job_is_made_ready_now(scene: Scene) -> None:
    job = await scene.in_state(JobState.SCHEDULED)
    assert await scene.store.jobs.reschedule([job], 0) == [job]
    moved = await scene.job(job)
    assert (moved.state, moved.due_at) == (JobState.READY, None)


async def test_a_ready_job_made_ready_stays_one_job(scene: Scene) -> None:
    job = await scene.enqueue()
    await scene.store.jobs.reschedule([job], 0)
    assert await scene.line() == [job]


@pytest.mark.parametrize("state", [state for state in REACHABLE if state not in MOVABLE])
async def test_any_other_job_is_left_alone(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state)
    before = await scene.job(job)
    assert await scene.store.jobs.reschedule([job, new_job_id()], 60) == []
    assert await scene.store.jobs.reschedule([job], 0) == []
    assert await scene.job(job) == before


async def test_a_job_named_twice_is_moved_once(scene: Scene) -> None:
    ready, scheduled = await scene.enqueue(), await scene.enqueue(delay=5.0)
    moved = await scene.store.jobs.reschedule([ready, scheduled, ready, scheduled], 60)
    assert sorted(moved) == sorted([ready, scheduled])
    assert await scene.states([ready, scheduled]) == [JobState.SCHEDULED] * 2


async def test_counters_and_fence_are_kept(scene: Scene) -> None:
    job = await scene.enqueue()
    await scene.line()
    before = await scene.job(job)
    await scene.store.jobs.reschedule([job], 60)
    after = await scene.job(job)
    assert (after.fence, after.attempts) == (before.fence, 0)
