"""What a death costs those who were held beside it: real processes that are killed or end."""

from __future__ import annotations

from collections import Counter

from holdfast.app import App
from holdfast.job.state import JobState
from tests.support import books
from tests.support.processes import Fleet
from tests.support.program import brief, innocent, once, poison
from tests.support.waiting import wait_until

LEASE = 1.0


async def drained_by(fleet: Fleet, app: App, *, slots: int, within: float) -> None:
    """One worker at a time works until no job is live; a dead one is replaced."""

    async def all_ended() -> bool:
        if not fleet.alive():
            fleet.worker(slots=slots, lease=LEASE)
        return await books.live_jobs(app.store) == 0

    await wait_until(all_ended, within, "all jobs end", look_every=0.1)


async def test_one_poison_job_among_fifty_dead_letters_no_neighbour(fleet: Fleet, app: App) -> None:
    first = await innocent.enqueue_many([(0.2,)] * 25)
    deadly = await poison.enqueue(0.1)
    second = await innocent.enqueue_many([(0.2,)] * 24)
    await drained_by(fleet, app, slots=50, within=60)
    aside = await deadly.get()
    assert (aside.state, aside.crashes) == (JobState.FAILED, 3)
    jobs = await books.all_of(app.store, [handle.id for handle in (*first, *second)])
    assert Counter(job.state for job in jobs) == {JobState.SUCCEEDED: 49}
    assert max(job.crashes for job in jobs) <= 1, "an innocent paid for the suspect twice"


async def test_a_killed_worker_charges_no_job_that_it_held_ahead(fleet: Fleet, app: App) -> None:
    """But for a claim whose answer was on its way: of that nobody can say what had begun."""
    slots = 4
    ids = [handle.id for handle in await brief.enqueue_many([(1,)] * 4_000)]
    await killed_at_work(fleet, slots)
    begun = {entry.job for entry in fleet.diary.entries("started")}
    ahead = [job for job in await app.store.jobs.live(ids) if job.ahead]
    await drained_by(fleet, app, slots=50, within=60)
    jobs = await books.all_of(app.store, ids)
    charged = [job for job in jobs if any(error.kind == "WorkerLost" for error in job.errors)]
    assert {job.state for job in jobs} == {JobState.SUCCEEDED}
    assert not {job.id for job in ahead} & {job.id for job in charged}
    assert sum(job.id not in begun for job in charged) <= slots


async def test_a_job_that_may_run_once_and_had_not_begun_is_handed_back_when_its_worker_is_killed(
    fleet: Fleet, app: App
) -> None:
    slots = 4
    ids = [handle.id for handle in await once.enqueue_many([("",)] * 2_000)]
    await killed_at_work(fleet, slots)
    begun = {entry.job for entry in fleet.diary.entries("started")}
    await drained_by(fleet, app, slots=50, within=60)
    failed = [job for job in await books.all_of(app.store, ids) if job.state is JobState.FAILED]
    never_begun = [job for job in failed if job.id not in begun]
    assert len(never_begun) <= slots, "more than one claim was charged"


async def killed_at_work(fleet: Fleet, slots: int) -> None:
    [victim] = await fleet.workers(1, slots=slots, lease=LEASE)
    await wait_until(lambda: len(fleet.diary.entries("returned")) > 200, 20, "it is at work")
    victim.kill()
