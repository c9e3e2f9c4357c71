"""Workers killed in the middle of their work: nothing is lost, nothing ends twice."""

from __future__ import annotations

from holdfast.app import App
from tests.support import books
from tests.support.killing import enqueue_briefs, kill_one_every, orphans_of
from tests.support.processes import Fleet

JOBS = 5_000
LEASE = 2.0
SWEEP = 2.0


async def test_jobs_survive_a_worker_killed_every_second(fleet: Fleet, app: App) -> None:
    ids = await enqueue_briefs(JOBS)
    await fleet.workers(4, slots=6, lease=LEASE)
    killed = await kill_one_every(1.0, fleet, app, slots=6, lease=LEASE)

    entries = fleet.diary.entries()
    await books.the_books_balance(app.store, ids, entries)
    orphans = await orphans_of(killed, entries, app.store)
    assert len(killed) >= 3, "the run was over before it was rough"
    assert orphans, "nobody was killed at work"
    slowest = max(orphan.reclaimed_after for orphan in orphans)
    # Half a lease more where the one who lives was late with a beat of its own.
    most = 1.5 * LEASE + SWEEP
    assert slowest < most, f"a job waited {slowest:.2f} s to be taken from the dead"
