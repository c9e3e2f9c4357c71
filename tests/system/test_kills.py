"""Workers killed in the middle of their work: nothing is lost, nothing ends twice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta

from holdfast.app import App
from holdfast.job.state import ENDED
from holdfast.store.contract.measures import Grain, Step
from holdfast.worker.meter import FLUSH_SECONDS
from tests.support import books
from tests.support.diary import Entry
from tests.support.killing import enqueue_briefs, kill_one_every, orphans_of
from tests.support.processes import Fleet, Process
from tests.support.waiting import wait_until

JOBS = 1_200
MILLISECONDS = (20.0, 80.0)
"""Of each job: enough work for some seconds of kills. `make chaos` takes many shorter ones."""
LEASE = 2.0
SWEEP = 2.0
FLUSH = FLUSH_SECONDS + 2.0
"""Seconds until what a worker measured is written, on a busy machine."""


async def test_jobs_survive_a_worker_killed_every_second(fleet: Fleet, app: App) -> None:
    ids = await enqueue_briefs(JOBS, milliseconds=MILLISECONDS)
    await fleet.workers(4, slots=6, lease=LEASE)
    killed = await kill_one_every(1.0, fleet, app, slots=6, lease=LEASE, most=4)

    entries = fleet.diary.entries()
    await books.the_books_balance(app.store, ids, entries)
    orphans = await orphans_of(killed, entries, app.store)
    assert len(killed) >= 3, "the run was over before it was rough"
    assert orphans, "nobody was killed at work"
    slowest = max(orphan.reclaimed_after for orphan in orphans)
    # Half a lease more where the one who lives was late with a beat of its own.
    most = 1.5 * LEASE + SWEEP
    assert slowest < most, f"a job waited {slowest:.2f} s to be taken from the dead"
    await only_the_last_seconds_are_unmeasured(app, killed, entries)


async def only_the_last_seconds_are_unmeasured(
    app: App, killed: Sequence[Process], entries: Sequence[Entry]
) -> None:
    """A worker that is killed takes with it the times of what ended since its last flush."""
    deaths = {process.pid: process.killed_at or 0.0 for process in killed}
    verdicts = [entry for entry in entries if entry.what == "finish" and entry.accepted]
    ends = [entry for entry in verdicts if entry.to in ENDED]
    sure = [end for end in ends if end.at < deaths.get(end.pid, math.inf) - FLUSH]

    async def are_measured() -> bool:
        now = await app.store.now()
        day = timedelta(days=1)
        points = await app.store.telemetry.series(Step.DAY, now - day, now + day, Grain.ALL)
        measured = sum(point.times.total.count for point in points)
        return len(sure) <= measured <= JOBS

    assert sure, "all ended in the last seconds of somebody"
    await wait_until(are_measured, 10, f"{len(sure)} of {len(ends)} ends are measured")
