"""Twenty thousand jobs while workers are killed, and others sleep through their leases."""

from __future__ import annotations

import asyncio
import random
import signal

import pytest

from holdfast.app import App
from tests.support import books
from tests.support.killing import enqueue_briefs, kill_one_every, orphans_of
from tests.support.processes import Fleet

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

JOBS = 20_000
LEASE = 2.0


async def test_jobs_survive_two_kills_a_second(fleet: Fleet, app: App) -> None:
    ids = await enqueue_briefs(JOBS, seed=3)
    await fleet.workers(4, slots=4, lease=LEASE)
    killed = await kill_one_every(0.5, fleet, app, slots=4, lease=LEASE)

    entries = fleet.diary.entries()
    await books.the_books_balance(app.store, ids, entries)
    orphans = await orphans_of(killed, entries, app.store)
    assert len(killed) >= 20
    assert max(orphan.reclaimed_after for orphan in orphans) < 1.5 * LEASE + 2


async def test_jobs_survive_kills_and_sleepers(fleet: Fleet, app: App) -> None:
    """Beside the kills, workers are stopped for longer than their lease and wake as zombies."""
    ids = await enqueue_briefs(JOBS, seed=4)
    await fleet.workers(4, slots=4, lease=LEASE)
    sleepers = asyncio.create_task(put_workers_to_sleep(fleet))
    try:
        await kill_one_every(2.0, fleet, app, slots=4, lease=LEASE)
    finally:
        sleepers.cancel()
    entries = fleet.diary.entries()
    await books.the_books_balance(app.store, ids, entries)
    refused = [entry for entry in entries if entry.what == "finish" and not entry.accepted]
    assert refused, "no sleeper woke in the middle of a job"


async def put_workers_to_sleep(fleet: Fleet) -> None:
    """One after the other; a kill may meet a sleeper, as it may anybody."""
    chance = random.Random(5)
    while True:
        sleeper = chance.choice(fleet.alive())
        sleeper.send(signal.SIGSTOP)
        await asyncio.sleep(1.5 * LEASE)
        if sleeper.alive:
            sleeper.send(signal.SIGCONT)
        await asyncio.sleep(LEASE / 2)
