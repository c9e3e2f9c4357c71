"""Jobs.get: whole records."""

from __future__ import annotations

import pytest

from holdfast.job.ends import Cancelled, End, Raised
from holdfast.job.ids import new_job_id
from holdfast.job.state import JobState
from holdfast.job.unique import Unique
from tests.conformance.builders import FAILED, REACHABLE, RETURNED, Scene, ids


async def test_nothing_asked_nothing_found(scene: Scene) -> None:
    assert await scene.store.jobs.get([]) == []


async def test_unknown_ids_are_left_out(scene: Scene) -> None:
    job = await scene.enqueue()
    assert ids(await scene.store.jobs.get([new_job_id(), job, new_job_id()])) == [job]


async def test_a_job_asked_for_twice_is_found_once(scene: Scene) -> None:
    job = await scene.enqueue()
    assert ids(await scene.store.jobs.get([job, job])) == [job]


@pytest.mark.parametrize("state", REACHABLE)
async def test_a_job_is_found_wherever_it_is(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state, queue="mail", priority=4, unique=Unique("k"), tags=("t",))
    found = await scene.job(job)
    assert (found.id, found.state, found.queue, found.priority) == (job, state, "mail", 4)
    assert (found.unique_key, found.tags, found.created_at) == ("k", ("t",), scene.clock.now)


@pytest.mark.parametrize("end", [RETURNED, FAILED, Cancelled()])
@pytest.mark.parametrize("ties", [0, 8])
async def test_an_ended_job_names_the_worker_that_held_it(
    scene: Scene, end: End, ties: int
) -> None:
    ended = await scene.ended(end, ties=ties)
    assert (await scene.job(ended.id)).worker_id == scene.worker


async def test_a_job_that_ended_while_it_waited_names_no_worker(scene: Scene) -> None:
    claimed = await scene.ended(Raised("E", "again"))
    await scene.finish(await scene.live(claimed.id), Cancelled())
    assert (await scene.job(claimed.id)).worker_id is None


async def test_a_thousand_jobs_are_found_in_one_call(scene: Scene) -> None:
    jobs = await scene.enqueue_many(1_000)
    assert sorted(ids(await scene.store.jobs.get(jobs))) == sorted(jobs)


async def test_times_are_aware(scene: Scene) -> None:
    job = await scene.job(await scene.in_state(JobState.SUCCEEDED))
    for moment in (job.created_at, job.finished_at, job.expires_at):
        assert moment is not None
        assert moment.utcoffset() is not None
