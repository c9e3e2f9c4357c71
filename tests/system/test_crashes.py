"""Handlers that harm their worker: one blocks its loop, one ends its process."""

from __future__ import annotations

from collections import Counter

from holdfast.app import App
from holdfast.job.state import JobState
from tests.support import books
from tests.support.processes import Fleet
from tests.support.program import brief, die, hog
from tests.support.waiting import wait_until

LEASE = 1.0


async def test_a_handler_that_blocks_the_loop_for_three_leases_keeps_its_lease(
    fleet: Fleet, app: App
) -> None:
    await fleet.workers(2, lease=LEASE, slots=1)
    handle = await hog.enqueue(3 * LEASE + 0.2)
    await handle.result(timeout=15)
    job = await handle.get()
    [claimed] = fleet.diary.entries("claimed")
    assert (job.state, job.fence) == (JobState.SUCCEEDED, claimed.fence)
    assert (job.attempts, job.crashes) == (1, 0)
    assert len(fleet.diary.entries("started")) == 1
    assert fleet.diary.entries("reclaim") == []
    [report] = fleet.diary.events("worker.loop_blocked")
    assert report.pid == fleet.diary.entries("started")[0].pid
    assert handle.id in report.text, "the report names what may have done it"
    assert "hog" in report.text, "and shows where the loop stands"


async def test_a_job_that_kills_its_workers_is_put_aside_and_the_others_go_on(
    fleet: Fleet, app: App
) -> None:
    deadly = await die.enqueue()
    others = await brief.enqueue_many([(2,)] * 200)
    for _ in range(2):
        fleet.worker(slots=4, lease=LEASE)

    async def put_aside() -> bool:
        for _ in range(2 - len(fleet.alive())):
            fleet.worker(slots=4, lease=LEASE)
        return (await deadly.get()).ended

    await wait_until(put_aside, 30, "the deadly job ends", look_every=0.05)
    job = await deadly.get()
    assert (job.state, job.crashes, job.attempts) == (JobState.FAILED, 3, 3)
    assert [error.kind for error in job.errors] == ["WorkerLost"] * 3
    exits = Counter([await p.exit_code(0) for p in fleet.processes if not p.alive])
    assert exits == {13: 3}, "three workers died of it, and no other"

    async def all_ended() -> bool:
        return await books.live_jobs(app.store) == 0

    await wait_until(all_ended, 15, "the other jobs end")
    states = Counter(job.state for job in await books.all_of(app.store, [o.id for o in others]))
    assert states == {JobState.SUCCEEDED: 200}
