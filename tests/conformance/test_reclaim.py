"""Jobs.reclaim: what a lost worker held goes on, unless the worker came back in time."""

from __future__ import annotations

from holdfast.job.ends import HandedBack, WorkerLost
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from holdfast.store.contract.records import Verdict
from holdfast.store.contract.workers import Held, WorkerInfo
from tests.conformance.builders import RETURNED, Scene, accepted, ids

LOST = WorkerLost()


async def test_an_empty_batch_reclaims_nothing(scene: Scene) -> None:
    assert await scene.store.jobs.reclaim([]) == []


async def test_a_lost_workers_job_is_tried_again(scene: Scene) -> None:
    worker = await scene.hire(lease=30)
    claimed = await scene.running(worker=worker)
    scene.clock.advance(31)
    assert (await scene.reclaim(await scene.live(claimed.id), LOST)).accepted
    job = await scene.job(claimed.id)
    assert (job.state, job.attempts, job.crashes) == (JobState.SCHEDULED, 1, 1)
    assert [error.message for error in job.errors] == ["worker lost"]


async def test_a_reclaim_makes_the_fence_grow(scene: Scene) -> None:
    worker = await scene.hire()
    claimed = await scene.running(worker=worker)
    await scene.lose(worker)
    await scene.reclaim(await scene.live(claimed.id), LOST)
    assert (await scene.job(claimed.id)).fence == claimed.fence + 1


async def test_a_zombie_cannot_finish_a_reclaimed_job(scene: Scene) -> None:
    worker = await scene.hire(lease=30)
    claimed = await scene.running(worker=worker)
    scene.clock.advance(31)
    await scene.reclaim(await scene.live(claimed.id), LOST)
    verdict = await scene.finish(claimed, RETURNED)
    assert verdict == Verdict(claimed.id, False, JobState.SCHEDULED, claimed.fence + 1)


async def test_a_worker_that_came_back_in_time_keeps_its_job(scene: Scene) -> None:
    worker = await scene.hire(lease=30)
    claimed = await scene.running(worker=worker)
    scene.clock.advance(31)
    [seen] = await scene.store.jobs.lapsed_leases(10)
    await scene.store.workers.heartbeat(worker, 30, [Held(claimed.id, claimed.fence)])
    verdict = await scene.reclaim(seen, LOST)
    assert verdict == Verdict(claimed.id, False, JobState.RUNNING, claimed.fence)
    assert (await scene.finish(claimed, RETURNED)).accepted


async def test_a_live_workers_job_is_not_reclaimed(scene: Scene) -> None:
    claimed = await scene.running()
    before = await scene.job(claimed.id)
    assert not (await scene.reclaim(await scene.live(claimed.id), LOST)).accepted
    assert await scene.job(claimed.id) == before


async def test_a_reclaim_seen_too_late_is_refused(scene: Scene) -> None:
    worker = await scene.hire()
    claimed = await scene.running(worker=worker)
    seen = await scene.live(claimed.id)
    await scene.finish(claimed, HandedBack())
    successor = await scene.claim_one()
    await scene.lose(worker)
    verdict = await scene.reclaim(seen, LOST)
    assert verdict == Verdict(claimed.id, False, JobState.RUNNING, successor.fence)


async def test_two_replicas_reclaim_a_job_once(scene: Scene) -> None:
    worker = await scene.hire()
    claimed = await scene.running(worker=worker)
    await scene.lose(worker)
    seen = await scene.live(claimed.id)
    verdicts = [await scene.reclaim(seen, LOST), await scene.reclaim(seen, LOST)]
    assert accepted(verdicts) == [True, False]
    assert (await scene.job(claimed.id)).crashes == 1


async def test_one_reclaim_twice_in_a_batch_is_accepted_once(scene: Scene) -> None:
    worker = await scene.hire()
    await scene.running(worker=worker)
    await scene.lose(worker)
    [seen] = await scene.store.jobs.lapsed_leases(10)
    move = decide(seen, LOST)
    assert accepted(await scene.store.jobs.reclaim([move, move])) == [True, False]


async def test_jobs_of_live_and_lost_workers_are_judged_one_by_one(scene: Scene) -> None:
    worker = await scene.hire()
    await scene.enqueue_many(6)
    held = [
        *await scene.claim(2, worker=worker),
        *await scene.claim(2),
        *await scene.claim(2, worker=worker),
    ]
    seen = {live.id: live for live in await scene.store.jobs.live(ids(held))}
    await scene.lose(worker)
    verdicts = await scene.store.jobs.reclaim([decide(seen[job.id], LOST) for job in held])
    assert accepted(verdicts) == [True, True, False, False, True, True]
    assert ids(verdicts) == ids(held)


async def test_a_job_that_kills_its_workers_is_put_aside(scene: Scene) -> None:
    policy = Policy(retry=Retry.constant(max_attempts=9, base=0, jitter=0), max_crashes=2)
    job = await scene.enqueue(policy=policy)
    for _ in range(2):
        await scene.store.jobs.promote_due(10)
        worker = await scene.hire()
        await scene.claim_one(worker=worker)
        await scene.lose(worker)
        await scene.reclaim(await scene.live(job), LOST)
    ended = await scene.job(job)
    assert (ended.state, ended.crashes, ended.reason) == (JobState.FAILED, 2, "worker lost")


async def test_a_pending_cancel_outlives_its_worker(scene: Scene) -> None:
    worker = await scene.hire()
    claimed = await scene.running(worker=worker)
    await scene.store.jobs.request_cancel([claimed.id])
    await scene.lose(worker)
    [seen] = await scene.store.jobs.lapsed_leases(10)
    assert seen.cancel_requested
    assert (await scene.reclaim(seen, LOST)).accepted
    assert await scene.state(claimed.id) is JobState.CANCELLED


async def test_a_waiting_job_has_no_worker_to_lose(scene: Scene) -> None:
    seen = await scene.live(await scene.enqueue())
    before = await scene.job(seen.id)
    verdict = await scene.reclaim(seen, LOST)
    assert verdict == Verdict(seen.id, False, JobState.READY, 0)
    assert await scene.job(seen.id) == before


async def lost_by_one_judged_by_another(scene: Scene) -> tuple[JobId, WorkerInfo]:
    """A job whose worker has lapsed, and a worker in good standing that found it so."""
    worker, reclaimer = await scene.hire(lease=30), await scene.hire(lease=60)
    claimed = await scene.running(worker=worker)
    scene.clock.advance(31)
    [judge] = [one for one in await scene.store.workers.find() if one.id == reclaimer]
    return claimed.id, judge


async def reclaim_by(scene: Scene, job: JobId, judge: WorkerInfo) -> bool:
    move = decide(await scene.live(job), LOST)
    [verdict] = await scene.store.jobs.reclaim([move], judge)
    return verdict.accepted


async def test_a_worker_in_good_standing_reclaims(scene: Scene) -> None:
    job, judge = await lost_by_one_judged_by_another(scene)
    assert await reclaim_by(scene, job, judge)


async def test_a_worker_whose_own_lease_has_lapsed_reclaims_nothing(scene: Scene) -> None:
    """The write waited so long that what was judged before it holds no more."""
    job, judge = await lost_by_one_judged_by_another(scene)
    scene.clock.advance(30)
    assert not await reclaim_by(scene, job, judge)
    assert await scene.state(job) is JobState.RUNNING


async def test_a_worker_that_had_a_break_since_it_judged_reclaims_nothing(scene: Scene) -> None:
    job, judge = await lost_by_one_judged_by_another(scene)
    scene.clock.advance(100)
    await scene.store.workers.heartbeat(judge.id, 60, [])
    assert not await reclaim_by(scene, job, judge)


async def test_a_worker_that_is_gone_reclaims_nothing(scene: Scene) -> None:
    job, judge = await lost_by_one_judged_by_another(scene)
    await scene.lose(judge.id)
    assert not await reclaim_by(scene, job, judge)
