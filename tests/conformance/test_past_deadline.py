"""Jobs.past_deadline and next_deadline_in: a deadline reaches a job wherever it is."""

from __future__ import annotations

import pytest

from holdfast.job.ends import DeadlinePassed
from holdfast.job.state import JobState
from tests.conformance.builders import RAISED, RETURNED, Scene, ids

LIVE_STATES = [JobState.READY, JobState.SCHEDULED, JobState.RUNNING, JobState.SUSPENDED]


@pytest.mark.parametrize("state", LIVE_STATES)
async def test_a_job_expires_from_any_live_state(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state, deadline_in=60.0)
    scene.clock.advance(61)
    await scene.wrote_all()
    [found] = await scene.store.jobs.past_deadline(10)
    assert (found.id, found.state) == (job, state)
    assert (await scene.finish(found, DeadlinePassed())).accepted
    ended = await scene.job(job)
    assert (ended.state, ended.reason) == (JobState.EXPIRED, "deadline passed")


async def test_a_deadline_to_come_is_not_listed(scene: Scene) -> None:
    await scene.enqueue(deadline_in=60.0)
    scene.clock.advance(59)
    assert await scene.store.jobs.past_deadline(10) == []


async def test_a_deadline_already_past_at_insertion_is_listed(scene: Scene) -> None:
    job = await scene.enqueue(deadline_at=scene.after(-5))
    assert ids(await scene.store.jobs.past_deadline(10)) == [job]


async def test_jobs_without_a_deadline_are_never_listed(scene: Scene) -> None:
    await scene.enqueue()
    scene.clock.advance(1e8)
    assert await scene.store.jobs.past_deadline(10) == []


async def test_a_job_that_ended_in_time_is_not_listed(scene: Scene) -> None:
    await scene.ended(RETURNED, deadline_in=60.0)
    scene.clock.advance(61)
    assert await scene.store.jobs.past_deadline(10) == []


async def test_ended_jobs_do_not_hide_live_ones_from_a_sweep(scene: Scene) -> None:
    for _ in range(12):
        await scene.ended(RETURNED, deadline_in=60.0)
    job = await scene.enqueue(deadline_in=60.0)
    scene.clock.advance(61)
    seen = [ids(await scene.store.jobs.past_deadline(5)) for _ in range(4)]
    assert [job] in seen


async def test_a_deadline_outlives_a_retry(scene: Scene) -> None:
    deadline = scene.after(60)
    await scene.ended(RAISED, deadline_at=deadline)
    scene.clock.advance(10)
    await scene.store.jobs.promote_due(10)
    assert (await scene.claim_one()).deadline_at == deadline
    scene.clock.advance(51)
    await scene.wrote_all()
    assert len(await scene.store.jobs.past_deadline(10)) == 1


async def test_a_requeued_job_has_no_deadline(scene: Scene) -> None:
    job = (await scene.ended(RETURNED, deadline_in=60.0)).id
    await scene.store.jobs.requeue([job])
    scene.clock.advance(61)
    assert await scene.store.jobs.past_deadline(10) == []
    assert (await scene.job(job)).deadline_at is None


async def test_a_sweep_pages_past_what_it_cannot_mend(scene: Scene) -> None:
    jobs = sorted(await scene.enqueue_many(25, deadline_in=60.0))
    scene.clock.advance(61)
    pages, after = [], None
    while page := await scene.store.jobs.past_deadline(10, after):
        pages.append(ids(page))
        after = page[-1].id
    assert pages == [jobs[:10], jobs[10:20], jobs[20:]]


async def test_the_next_deadline_is_the_soonest(scene: Scene) -> None:
    assert await scene.store.jobs.next_deadline_in() is None
    await scene.enqueue(deadline_in=90.0)
    await scene.enqueue(deadline_in=60.0)
    scene.clock.advance(10)
    assert await scene.store.jobs.next_deadline_in() == pytest.approx(50)


async def test_an_ended_jobs_deadline_is_not_the_next(scene: Scene) -> None:
    await scene.ended(RETURNED, deadline_in=60.0)
    assert await scene.store.jobs.next_deadline_in() is None
    await scene.enqueue(deadline_in=90.0)
    assert await scene.store.jobs.next_deadline_in() == pytest.approx(90)


async def test_a_worker_that_has_ends_to_write_is_waited_for(scene: Scene) -> None:
    """It may have decided them in time, while the store was away."""
    worker = await scene.hire(lease=30)
    claimed = await scene.running(deadline_in=10.0, worker=worker)
    scene.clock.advance(14)
    for _ in range(3):
        await scene.store.workers.heartbeat(worker, 30, [], caught_up=False)
        assert await scene.store.jobs.past_deadline(10) == []
    await scene.wrote_all(worker, 30)
    assert ids(await scene.store.jobs.past_deadline(10)) == [claimed.id]


async def test_a_lapsed_workers_job_is_left_to_those_who_reclaim(scene: Scene) -> None:
    worker = await scene.hire(lease=30)
    claimed = await scene.running(deadline_in=10.0, worker=worker)
    scene.clock.advance(1000)
    assert await scene.store.jobs.past_deadline(10) == []
    await scene.lose(worker)
    assert ids(await scene.store.jobs.past_deadline(10)) == [claimed.id]


async def test_jobs_that_are_waited_for_do_not_hide_others(scene: Scene) -> None:
    busy = await scene.hire(lease=30)
    await scene.enqueue_many(25, deadline_in=10.0)
    await scene.claim(25, worker=busy)
    waiting = sorted(await scene.enqueue_many(5, deadline_in=10.0))
    scene.clock.advance(11)
    assert ids(await scene.store.jobs.past_deadline(10)) == waiting
