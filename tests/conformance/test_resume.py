"""Jobs.resume: a suspended job goes on as the same attempt."""

from __future__ import annotations

import pytest

from holdfast.job.ends import WasSuspended
from holdfast.job.ids import new_job_id
from holdfast.job.state import JobState
from tests.conformance.builders import REACHABLE, Scene


async def test_an_empty_batch_resumes_nothing(scene: Scene) -> None:
    assert await scene.store.jobs.resume([]) == []


async def test_a_resumed_job_is_the_same_attempt(scene: Scene) -> None:
    claimed = await scene.ended(WasSuspended(None))
    assert await scene.store.jobs.resume([claimed.id]) == [claimed.id]
    again = await scene.claim_one()
    assert again.attempt == claimed.attempt
    assert again.fence > claimed.fence


async def test_a_timer_does_not_hold_up_a_resume(scene: Scene) -> None:
    claimed = await scene.ended(WasSuspended(3600.0))
    await scene.store.jobs.resume([claimed.id])
    job = await scene.job(claimed.id)
    assert (job.state, job.due_at) == (JobState.READY, None)


async def test_a_resumed_job_goes_to_the_end_of_the_line(scene: Scene) -> None:
    claimed = await scene.ended(WasSuspended(None))
    waiting = await scene.enqueue()
    await scene.store.jobs.resume([claimed.id])
    assert await scene.line() == [waiting, claimed.id]


@pytest.mark.parametrize("state", [s for s in REACHABLE if s is not JobState.SUSPENDED])
async def test_only_suspended_jobs_are_resumed(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state)
    assert await scene.store.jobs.resume([job, new_job_id()]) == []
    assert await scene.state(job) is state


async def test_a_job_is_resumed_once(scene: Scene) -> None:
    job = await scene.in_state(JobState.SUSPENDED)
    assert await scene.store.jobs.resume([job, job]) == [job]
    assert await scene.store.jobs.resume([job]) == []
