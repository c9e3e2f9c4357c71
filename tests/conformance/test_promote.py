"""Jobs.due and Jobs.promote: what is due, by name, for a promoter whose whole batch was refused."""

from __future__ import annotations

from holdfast.job.ends import WasSuspended
from holdfast.job.ids import new_job_id
from holdfast.job.state import JobState
from tests.conformance.builders import Scene, ids


async def test_what_is_due_is_listed_by_id_a_page_at_a_time(scene: Scene) -> None:
    jobs = [*await scene.enqueue_many(3, delay=20.0), *await scene.enqueue_many(2, delay=10.0)]
    suspended = await scene.ended(WasSuspended(5.0))
    await scene.enqueue(delay=60.0)
    await scene.ended(WasSuspended(None))
    assert await scene.store.jobs.due(10) == []
    scene.clock.advance(30)
    due = sorted([*jobs, suspended.id])
    assert await scene.store.jobs.due(10) == due
    assert await scene.store.jobs.due(4) == due[:4]
    assert await scene.store.jobs.due(4, due[3]) == due[4:]


async def test_only_the_jobs_that_are_named_and_due_are_promoted(scene: Scene) -> None:
    named, other = await scene.enqueue_many(2, delay=10.0)
    suspended = (await scene.ended(WasSuspended(5.0))).id
    early = await scene.enqueue(delay=60.0)
    scene.clock.advance(30)
    assert await scene.store.jobs.promote([named, suspended, early, new_job_id()]) == 2
    assert await scene.states([named, suspended]) == [JobState.READY, JobState.READY]
    assert await scene.states([other, early]) == [JobState.SCHEDULED, JobState.SCHEDULED]
    assert set(ids(await scene.claim(10))) == {named, suspended}


async def test_promoting_nobody_does_nothing(scene: Scene) -> None:
    assert await scene.store.jobs.promote([]) == 0


async def test_a_promoted_job_is_ready_once(scene: Scene) -> None:
    job = await scene.enqueue(delay=10.0)
    scene.clock.advance(30)
    assert await scene.store.jobs.promote([job, job]) == 1
    assert await scene.store.jobs.promote([job]) == 0
    assert await scene.line() == [job]
