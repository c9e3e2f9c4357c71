"""A Postgres that is restarted and cut off again and again for a minute."""

from __future__ import annotations

import asyncio
import random

import pytest

from holdfast.app import App
from holdfast.store.open import open_store
from holdfast.testing.servers import PostgresServer
from holdfast.testing.servers.postgres import StopMode
from tests.support.breaking import terminate_backends
from tests.support.load import everything_happened_once, finish, more_jobs_return, under_load
from tests.support.processes import Fleet

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

FAULTS = 30
MODES: tuple[StopMode, ...] = ("immediate", "fast")


@pytest.fixture
async def shared_url(durable_postgres: PostgresServer) -> str:
    url = durable_postgres.new_database()
    await open_store(url).migrate()
    return url


async def test_a_minute_of_restarts_and_broken_connections_loses_nothing(
    fleet: Fleet, app: App, durable_postgres: PostgresServer
) -> None:
    chance = random.Random(6)
    workers, enqueuer = await under_load(fleet)
    for _ in range(FAULTS):
        if chance.random() < 0.5:
            await asyncio.to_thread(durable_postgres.restart, chance.choice(MODES))
        else:
            await terminate_backends(fleet.url, 100)
        await more_jobs_return(fleet, chance.randrange(10, 200))
    await finish(fleet, app, enqueuer)
    assert all(worker.alive for worker in workers)
    await everything_happened_once(fleet, app)
