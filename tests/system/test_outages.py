"""Postgres restarts and connections break under load: everyone goes on by themselves.

With a lease much longer than any outage here no job is taken from a living
worker, so the strictest thing can be asked: each handler ran exactly once.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from holdfast.app import App
from holdfast.client.inserting import ENQUEUE_PATIENCE
from holdfast.store.open import open_store
from holdfast.testing.servers import PostgresServer
from tests.support.breaking import terminate_backends
from tests.support.load import everything_happened_once, finish, more_jobs_return, under_load
from tests.support.processes import Fleet
from tests.support.waiting import comes_true


@pytest.fixture
async def shared_url(durable_postgres: PostgresServer) -> str:
    url = durable_postgres.new_database()
    await open_store(url).migrate()
    return url


async def test_a_restart_in_the_middle_of_the_work_loses_nothing_and_does_nothing_twice(
    fleet: Fleet, app: App, durable_postgres: PostgresServer
) -> None:
    workers, enqueuer = await under_load(fleet)
    for _ in range(2):
        await asyncio.to_thread(durable_postgres.restart, "immediate")
        await more_jobs_return(fleet, 200)
    await finish(fleet, app, enqueuer)
    assert fleet.diary.events("worker.store_unavailable"), "the workers noticed nothing"
    assert all(worker.alive for worker in workers)
    await everything_happened_once(fleet, app)


async def test_backends_terminated_at_random_lose_nothing_and_do_nothing_twice(
    fleet: Fleet, app: App
) -> None:
    workers, enqueuer = await under_load(fleet)
    terminated = 0

    async def terminate_some() -> bool:
        nonlocal terminated
        terminated += await terminate_backends(fleet.url, 3)
        return False

    await comes_true(terminate_some, within=3.0, look_every=0.1)
    await more_jobs_return(fleet, 200)
    await finish(fleet, app, enqueuer)
    assert terminated > 20, f"only {terminated} connections were broken"
    assert all(worker.alive for worker in workers)
    await everything_happened_once(fleet, app)


async def test_a_long_outage_is_waited_out(
    fleet: Fleet, app: App, durable_postgres: PostgresServer
) -> None:
    """Longer than several tries of everyone, shorter than a user's enqueue is patient."""
    workers, enqueuer = await under_load(fleet)
    began = time.monotonic()
    durable_postgres.halt()
    before = len(fleet.diary.entries("returned"))
    assert not await comes_true(lambda: not all(w.alive for w in workers), within=2.0)
    durable_postgres.resume()
    outage = time.monotonic() - began
    await more_jobs_return(fleet, 200, than=before)
    await finish(fleet, app, enqueuer)
    failed = fleet.diary.entries("error")
    assert not failed or outage > 0.8 * ENQUEUE_PATIENCE, f"after {outage:.1f} s: {failed[0]}"
    await everything_happened_once(fleet, app)
