"""Valkey is killed, frozen and made to forget under load: everyone goes on by themselves.

With `appendfsync always` what was acknowledged is on disk, so the strictest thing can be asked:
nothing is lost and each handler ran exactly once. With `everysec` the machine may lose the last
second; what is left must then be whole, and drain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.app import App
from holdfast.testing.servers import ThrowawayValkey, find_valkey
from tests.properties import always_true
from tests.properties.always_true import Snapshot
from tests.support import books
from tests.support.load import everything_happened_once, finish, more_jobs_return, under_load
from tests.support.processes import Fleet
from tests.support.waiting import comes_true


@pytest.fixture(scope="session")
def durable_valkey() -> Iterator[ThrowawayValkey]:
    with ThrowawayValkey(find_valkey(), fsync="always") as server:
        yield server


@pytest.fixture(scope="session")
def everysec_valkey() -> Iterator[ThrowawayValkey]:
    with ThrowawayValkey(find_valkey(), fsync="everysec") as server:
        yield server


@pytest.fixture
def shared_url(request: pytest.FixtureRequest) -> str:
    """A namespace of the server that the test asks for by name."""
    name = "everysec_valkey" if "everysec_valkey" in request.fixturenames else "durable_valkey"
    server: ThrowawayValkey = request.getfixturevalue(name)
    return server.new_namespace()


async def test_a_killed_server_loses_nothing_it_acknowledged_and_nothing_happens_twice(
    fleet: Fleet, app: App, durable_valkey: ThrowawayValkey
) -> None:
    await killed_again_and_again(fleet, app, durable_valkey, times=2)


async def killed_again_and_again(
    fleet: Fleet, app: App, server: ThrowawayValkey, times: int
) -> None:
    workers, enqueuer = await under_load(fleet)
    for _ in range(times):
        await asyncio.to_thread(server.restart)
        await more_jobs_return(fleet, 200)
    await finish(fleet, app, enqueuer)
    assert fleet.diary.events("worker.store_unavailable"), "the workers noticed nothing"
    assert all(worker.alive for worker in workers)
    await everything_happened_once(fleet, app)


async def test_a_machine_that_loses_the_last_second_keeps_the_rest_whole(
    fleet: Fleet, app: App, everysec_valkey: ThrowawayValkey
) -> None:
    """The file is cut back to what it held a moment before, as a power cut would do."""
    workers, enqueuer = await under_load(fleet)
    log = _newest_log(everysec_valkey.directory)
    kept = {entry.job for entry in fleet.diary.entries("acknowledged")}
    safe = log.stat().st_size
    await more_jobs_return(fleet, 50)
    everysec_valkey.halt()
    with log.open("r+b") as file:
        file.truncate(safe)
    everysec_valkey.resume()
    await more_jobs_return(fleet, 100)
    await finish(fleet, app, enqueuer)
    assert all(worker.alive for worker in workers)
    await nothing_older_is_lost_and_all_is_whole(fleet, app, kept)


def _newest_log(directory: Path) -> Path:
    """6.2 has one append-only file; later releases have a folder of them."""
    found = [*directory.glob("appendonly.aof"), *directory.glob("appendonlydir/*.incr.aof")]
    return max(found, key=lambda path: path.stat().st_mtime)


async def nothing_older_is_lost_and_all_is_whole(fleet: Fleet, app: App, kept: set[str]) -> None:
    seen = await Snapshot.of(app.store)
    assert seen.jobs.keys() >= kept, f"lost: {kept - seen.jobs.keys()}"
    always_true.line_4_every_running_job_has_a_live_worker_or_is_reclaimable(seen)
    always_true.line_5_attempts_and_crashes_stay_within_bounds(seen)
    always_true.line_6_every_waiting_job_has_something_that_will_wake_it(seen)
    books.line_11_everything_drained(seen)
    await books.the_store_finds_nothing_wrong(app.store)
    ran = {entry.job for entry in fleet.diary.entries("returned")}
    assert ran >= kept, f"never ran: {kept - ran}"


async def test_forgotten_scripts_and_killed_connections_harm_nobody(
    fleet: Fleet, app: App, durable_valkey: ThrowawayValkey
) -> None:
    workers, enqueuer = await under_load(fleet)
    killed = 0

    async def harass() -> bool:
        nonlocal killed
        await asyncio.to_thread(durable_valkey.say, "SCRIPT", "FLUSH")
        for kind in ("normal", "pubsub"):
            gone = await asyncio.to_thread(durable_valkey.say, "CLIENT", "KILL", "TYPE", kind)
            killed += int(str(gone))
        return False

    await comes_true(harass, within=2.0, look_every=0.1)
    await more_jobs_return(fleet, 200)
    await finish(fleet, app, enqueuer)
    assert killed > 20, f"only {killed} connections were broken"
    assert all(worker.alive for worker in workers)
    await everything_happened_once(fleet, app)


async def test_a_server_that_is_busy_for_a_while_is_waited_for(
    fleet: Fleet, app: App, durable_valkey: ThrowawayValkey
) -> None:
    await asleep_for(fleet, app, durable_valkey, seconds=1.5)


async def asleep_for(fleet: Fleet, app: App, server: ThrowawayValkey, seconds: float) -> None:
    workers, enqueuer = await under_load(fleet)
    await asyncio.to_thread(server.say, "DEBUG", "SLEEP", str(seconds))
    await more_jobs_return(fleet, 200)
    await finish(fleet, app, enqueuer)
    assert all(worker.alive for worker in workers)
    await everything_happened_once(fleet, app)
