"""Jobs.lift_deadlines: a live job goes on without its deadline."""

from __future__ import annotations

import pytest

from holdfast.job.ids import new_job_id
from holdfast.job.state import JobState
from tests.conformance.builders import RETURNED, Scene

LIVE_STATES = [JobState.READY, JobState.SCHEDULED, JobState.RUNNING, JobState.SUSPENDED]


async def test_an_empty_batch_lifts_nothing(scene: Scene) -> None:
    assert await scene.store.jobs.lift_deadlines([]) == []


@pytest.mark.parametrize("state", LIVE_STATES)
async def test_a_lifted_deadline_is_never_past(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state, deadline_in=60.0)
    other = await scene.enqueue(deadline_in=60.0)
    assert await scene.store.jobs.lift_deadlines([job]) == [job]
    assert (await scene.job(job)).deadline_at is None
    assert await scene.state(job) is state
    scene.clock.advance(61)
    await scene.wrote_all()
    assert [late.id for late in await scene.store.jobs.past_deadline(10)] == [other]
    await scene.store.jobs.lift_deadlines([other])
    assert await scene.store.jobs.next_deadline_in() is None


async def test_lifting_twice_or_without_a_deadline_changes_nothing(scene: Scene) -> None:
    dated, plain = await scene.enqueue(deadline_in=60.0), await scene.enqueue()
    lift = scene.store.jobs.lift_deadlines
    assert await lift([dated, plain, new_job_id()]) == [dated]
    assert await lift([dated, plain]) == []


async def test_an_ended_job_keeps_the_deadline_that_it_had(scene: Scene) -> None:
    deadline = scene.after(60)
    ended = await scene.ended(RETURNED, deadline_at=deadline)
    assert await scene.store.jobs.lift_deadlines([ended.id]) == []
    assert (await scene.job(ended.id)).deadline_at == deadline


async def test_a_running_job_whose_deadline_was_lifted_ends_as_any_other(scene: Scene) -> None:
    claimed = await scene.running(deadline_in=60.0)
    await scene.store.jobs.lift_deadlines([claimed.id])
    assert (await scene.finish(claimed, RETURNED)).accepted
    assert await scene.state(claimed.id) is JobState.SUCCEEDED
