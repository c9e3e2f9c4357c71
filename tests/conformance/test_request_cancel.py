"""Jobs.request_cancel: a running job is marked, its worker is told, the mark stays."""

from __future__ import annotations

import pytest

from holdfast.job.ends import End, HandedBack, Snoozed, WasSuspended, WasThrottled, WorkerLost
from holdfast.job.ids import new_job_id
from holdfast.job.policy import Policy, Retention
from holdfast.job.state import JobState
from holdfast.store.contract.workers import Held
from tests.conformance.builders import RAISED, REACHABLE, RETURNED, Scene


async def test_an_empty_batch_marks_nothing(scene: Scene) -> None:
    assert await scene.store.jobs.request_cancel([]) == []


async def test_a_running_job_is_marked_and_goes_on_running(scene: Scene) -> None:
    claimed = await scene.running()
    assert await scene.store.jobs.request_cancel([claimed.id]) == [claimed.id]
    job = await scene.job(claimed.id)
    assert (job.state, job.cancel_requested_at) == (JobState.RUNNING, scene.clock.now)


@pytest.mark.parametrize("state", [s for s in REACHABLE if s is not JobState.RUNNING])
async def test_only_running_jobs_are_marked(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state)
    assert await scene.store.jobs.request_cancel([job, new_job_id()]) == []
    assert (await scene.job(job)).cancel_requested_at is None


async def test_the_heartbeat_tells_the_worker(scene: Scene) -> None:
    claimed, other = await scene.running(), await scene.running()
    held = [Held(job.id, job.fence) for job in (claimed, other)]
    await scene.store.jobs.request_cancel([claimed.id])
    beat = await scene.store.workers.heartbeat(scene.worker, 30, held)
    assert (beat.known, beat.cancel, beat.lost) == (True, (claimed.id,), ())


async def test_the_heartbeat_goes_on_telling_until_the_attempt_ends(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.store.jobs.request_cancel([claimed.id])
    held = [Held(claimed.id, claimed.fence)]
    for _ in range(2):
        beat = await scene.store.workers.heartbeat(scene.worker, 30, held)
        assert beat.cancel == (claimed.id,)


async def test_a_second_request_is_as_good_as_one(scene: Scene) -> None:
    claimed = await scene.running()
    assert await scene.store.jobs.request_cancel([claimed.id, claimed.id]) == [claimed.id]
    assert await scene.store.jobs.request_cancel([claimed.id]) == [claimed.id]


async def test_a_return_that_happened_stands(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.store.jobs.request_cancel([claimed.id])
    assert (await scene.finish(claimed, RETURNED, cancel_requested=True)).accepted
    assert await scene.state(claimed.id) is JobState.SUCCEEDED


async def test_any_other_end_is_cancelled(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.store.jobs.request_cancel([claimed.id])
    assert (await scene.finish(claimed, RAISED, cancel_requested=True)).accepted
    assert await scene.state(claimed.id) is JobState.CANCELLED


async def test_a_requeued_job_has_forgotten_its_cancel(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.store.jobs.request_cancel([claimed.id])
    await scene.finish(claimed, RAISED, cancel_requested=True)
    await scene.store.jobs.requeue([claimed.id])
    again = await scene.claim_one()
    beat = await scene.store.workers.heartbeat(scene.worker, 30, [Held(again.id, again.fence)])
    assert beat.cancel == ()


@pytest.mark.parametrize(
    "end",
    [RAISED, Snoozed(5), WasThrottled(5, "slow"), WasSuspended(None), HandedBack()],
    ids=["raise", "snooze", "throttle", "suspend", "hand back"],
)
async def test_a_cancel_the_worker_has_not_heard_of_is_not_lost(scene: Scene, end: End) -> None:
    claimed = await scene.running(policy=Policy(retention=Retention(other=77)))
    await scene.store.jobs.request_cancel([claimed.id])
    assert (await scene.finish(claimed, end, cancel_requested=False)).accepted
    job = await scene.job(claimed.id)
    assert (job.state, job.reason) == (JobState.CANCELLED, "cancelled on request")
    assert job.expires_at == scene.after(77)


async def test_a_cancel_that_came_during_a_reclaim_is_not_lost(scene: Scene) -> None:
    worker = await scene.hire()
    claimed = await scene.running(worker=worker)
    await scene.lose(worker)
    [seen] = await scene.store.jobs.lapsed_leases(10)
    await scene.store.jobs.request_cancel([claimed.id])
    assert not seen.cancel_requested
    assert (await scene.reclaim(seen, WorkerLost())).accepted
    assert await scene.state(claimed.id) is JobState.CANCELLED
