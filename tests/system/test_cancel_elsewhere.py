"""A cancel asked for in one process stops a handler in another."""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import urlencode

import pytest

from holdfast.app import App
from holdfast.errors import JobCancelled
from holdfast.job.state import JobState
from holdfast.store.open import open_store
from holdfast.testing.servers import PostgresServer
from tests.support import program
from tests.support.processes import Fleet, fleet_on
from tests.support.program import linger
from tests.support.waiting import slowness, wait_until


async def cancelled_after(fleet: Fleet, app: App) -> float:
    handle = await linger.enqueue(60)
    await wait_until(lambda: bool(fleet.diary.entries("started", job=handle.id)), 5, "it runs")
    asked = time.monotonic()
    await handle.cancel()
    with pytest.raises(JobCancelled):
        await handle.result(timeout=10)
    await wait_until(lambda: bool(fleet.diary.entries("finish", job=handle.id)), 5, "it is noted")
    [end] = fleet.diary.entries("finish", job=handle.id)
    assert (end.to, end.accepted) == (JobState.CANCELLED, True)
    return end.at - asked


async def test_a_cancel_reaches_another_process_at_once(fleet: Fleet, app: App) -> None:
    """By a wakeup: the next heartbeat is ten seconds away, and most polls are farther."""
    await fleet.workers(1, lease=30, poll=60)
    waits = [await cancelled_after(fleet, app) for _ in range(3)]
    assert min(waits) < 5, waits


async def test_a_cancel_reaches_another_process_by_its_heartbeat_alone(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    """Where nobody listens for wakeups, as behind a pooler, the heartbeat brings the word."""
    url = postgres.new_database()
    await open_store(url).migrate()
    lease = 1.5
    deaf = f"{url}?{urlencode({'listen': 'false'})}"
    with fleet_on(deaf, tmp_path) as fleet, program.app.using_store(deaf):
        async with program.app as app:
            await fleet.workers(1, lease=lease)
            waits = [await cancelled_after(fleet, app) for _ in range(2)]
    assert min(waits) < lease / 3 + 0.3 * slowness(), waits
