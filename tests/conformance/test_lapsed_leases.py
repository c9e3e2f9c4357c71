"""Jobs.lapsed_leases: finds every running job that nobody runs, and no other."""

from __future__ import annotations

from holdfast.job.record import Live
from holdfast.job.state import JobState
from tests.conformance.builders import QUEUE, TASK, Scene, ids


async def test_a_live_workers_jobs_are_not_listed(scene: Scene) -> None:
    worker = await scene.hire(lease=30)
    await scene.running(worker=worker)
    scene.clock.advance(29)
    assert await scene.store.jobs.lapsed_leases(10) == []


async def test_a_lapsed_workers_jobs_are_listed_with_all_it_takes_to_decide(scene: Scene) -> None:
    worker = await scene.hire(lease=30)
    claimed = await scene.running(worker=worker)
    scene.clock.advance(31)
    assert await scene.store.jobs.lapsed_leases(10) == [
        Live(
            id=claimed.id,
            state=JobState.RUNNING,
            queue=QUEUE,
            task=TASK,
            policy=claimed.policy,
            attempts=0,
            crashes=0,
            fence=claimed.fence,
            worker_id=worker,
            claimed_at=claimed.claimed_at,
            cancel_requested=False,
        )
    ]


async def test_a_worker_that_left_has_its_jobs_listed_at_once(scene: Scene) -> None:
    worker = await scene.hire(lease=30)
    claimed = await scene.running(worker=worker)
    await scene.lose(worker)
    assert ids(await scene.store.jobs.lapsed_leases(10)) == [claimed.id]


async def test_a_heartbeat_takes_a_workers_jobs_off_the_list(scene: Scene) -> None:
    worker = await scene.hire(lease=30)
    await scene.running(worker=worker)
    scene.clock.advance(31)
    await scene.store.workers.heartbeat(worker, 30, [])
    assert await scene.store.jobs.lapsed_leases(10) == []


async def test_waiting_jobs_are_never_listed(scene: Scene) -> None:
    for state in (JobState.READY, JobState.SCHEDULED, JobState.SUSPENDED):
        await scene.in_state(state, queue=state)
    scene.clock.advance(1e9)
    assert await scene.store.jobs.lapsed_leases(10) == []


async def test_a_sweep_pages_past_what_it_cannot_mend(scene: Scene) -> None:
    worker = await scene.hire()
    jobs = sorted(await scene.enqueue_many(25))
    await scene.claim(25, worker=worker)
    await scene.lose(worker)
    pages, after = [], None
    while page := await scene.store.jobs.lapsed_leases(10, after):
        pages.append(ids(page))
        after = page[-1].id
    assert pages == [jobs[:10], jobs[10:20], jobs[20:]]
