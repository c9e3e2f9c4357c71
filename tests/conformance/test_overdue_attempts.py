"""Jobs.overdue_attempts: finds attempts that outlasted their timeout."""

from __future__ import annotations

from holdfast.job.ends import HandedBack, TimedOut
from holdfast.job.policy import Policy
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from tests.conformance.builders import Scene, ids

TEN = Policy(retry=Retry.constant(base=1, jitter=0), timeout=10)


async def test_an_attempt_is_overdue_after_its_timeout(scene: Scene) -> None:
    claimed = await scene.running(policy=TEN)
    scene.clock.advance(9.5)
    assert await scene.store.jobs.overdue_attempts(10) == []
    scene.clock.advance(1)
    await scene.wrote_all()
    [overdue] = await scene.store.jobs.overdue_attempts(10)
    assert (overdue.id, overdue.fence, overdue.state) == (
        claimed.id,
        claimed.fence,
        JobState.RUNNING,
    )
    assert (overdue.worker_id, overdue.policy) == (scene.worker, claimed.policy)


async def test_jobs_of_one_claim_have_their_own_timeouts(scene: Scene) -> None:
    tasks = ("a", "other", "b", "a", "other", "a", "b")
    policies = (TEN, TEN, Policy(), Policy(timeout=20), TEN, TEN, Policy())
    jobs = [
        await scene.enqueue(task, policy=policy)
        for task, policy in zip(tasks, policies, strict=True)
    ]
    known = [job for job, task in zip(jobs, tasks, strict=True) if task != "other"]
    assert ids(await scene.claim(10, tasks=["a", "b"])) == known
    assert [await scene.state(job) for job in (jobs[1], jobs[4])] == [JobState.READY] * 2
    overdue = []
    for seconds in (15, 10, 1e8):
        scene.clock.advance(seconds)
        await scene.wrote_all()
        overdue.append(sorted(ids(await scene.store.jobs.overdue_attempts(10))))
    short, middle = [jobs[0], jobs[5]], jobs[3]
    assert overdue == [sorted(short), sorted([*short, middle]), sorted([*short, middle])]


async def test_slack_gives_a_worker_time_to_end_the_attempt_itself(scene: Scene) -> None:
    await scene.running(policy=TEN)
    scene.clock.advance(12)
    await scene.wrote_all()
    assert await scene.store.jobs.overdue_attempts(10, slack=5.0) == []
    scene.clock.advance(4)
    await scene.wrote_all()
    assert len(await scene.store.jobs.overdue_attempts(10, slack=5.0)) == 1


async def test_a_job_without_a_timeout_is_never_overdue(scene: Scene) -> None:
    await scene.running()
    scene.clock.advance(1e8)
    assert await scene.store.jobs.overdue_attempts(10) == []


async def test_waiting_does_not_count_as_running(scene: Scene) -> None:
    await scene.enqueue(policy=TEN)
    scene.clock.advance(1000)
    await scene.claim_one()
    scene.clock.advance(9)
    assert await scene.store.jobs.overdue_attempts(10) == []


async def test_every_attempt_has_its_own_time(scene: Scene) -> None:
    claimed = await scene.running(policy=TEN)
    scene.clock.advance(8)
    await scene.finish(claimed, HandedBack())
    await scene.claim_one()
    scene.clock.advance(8)
    assert await scene.store.jobs.overdue_attempts(10) == []


async def test_a_timed_out_attempt_is_tried_again(scene: Scene) -> None:
    claimed = await scene.running(policy=TEN)
    scene.clock.advance(11)
    await scene.wrote_all()
    [overdue] = await scene.store.jobs.overdue_attempts(10)
    assert (await scene.finish(overdue, TimedOut(10))).accepted
    assert await scene.store.jobs.overdue_attempts(10) == []
    job = await scene.job(claimed.id)
    assert (job.state, job.errors[0].message) == (JobState.SCHEDULED, "timed out after 10 s")


async def test_a_sweep_pages_past_what_it_cannot_mend(scene: Scene) -> None:
    jobs = sorted(await scene.enqueue_many(25, policy=TEN))
    await scene.claim(25)
    scene.clock.advance(11)
    await scene.wrote_all()
    pages, after = [], None
    while page := await scene.store.jobs.overdue_attempts(10, after):
        pages.append(ids(page))
        after = page[-1].id
    assert pages == [jobs[:10], jobs[10:20], jobs[20:]]


async def test_a_worker_that_has_ends_to_write_is_waited_for(scene: Scene) -> None:
    """It may have decided them in time, while the store was away."""
    worker = await scene.hire(lease=30)
    claimed = await scene.running(policy=TEN, worker=worker)
    scene.clock.advance(14)
    for _ in range(3):
        await scene.store.workers.heartbeat(worker, 30, [], caught_up=False)
        assert await scene.store.jobs.overdue_attempts(10) == []
    await scene.wrote_all(worker, 30)
    assert ids(await scene.store.jobs.overdue_attempts(10)) == [claimed.id]


async def test_one_beat_after_the_timeout_does_not_say_that_all_before_it_is_written(
    scene: Scene,
) -> None:
    """It may have been on its way while the handler returned."""
    await scene.running(policy=TEN)
    scene.clock.advance(11)
    await scene.store.workers.heartbeat(scene.worker, 30, [])
    assert await scene.store.jobs.overdue_attempts(10) == []


async def test_a_lapsed_workers_attempt_is_left_to_those_who_reclaim(scene: Scene) -> None:
    worker = await scene.hire(lease=30)
    claimed = await scene.running(policy=TEN, worker=worker)
    scene.clock.advance(1000)
    assert await scene.store.jobs.overdue_attempts(10) == []
    await scene.lose(worker)
    assert ids(await scene.store.jobs.overdue_attempts(10)) == [claimed.id]


async def test_attempts_that_are_waited_for_do_not_hide_others(scene: Scene) -> None:
    busy = await scene.hire(lease=30)
    await scene.enqueue_many(25, policy=TEN)
    await scene.claim(25, worker=busy)
    overdue = sorted(await scene.enqueue_many(5, policy=TEN))
    await scene.claim(5)
    scene.clock.advance(11)
    await scene.wrote_all()
    assert ids(await scene.store.jobs.overdue_attempts(10)) == overdue
