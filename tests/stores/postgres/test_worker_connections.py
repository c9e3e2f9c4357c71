"""How many connections a worker needs: few, opened when they are needed, closed soon after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg
import pytest

from holdfast import App
from holdfast.errors import StoreUnavailable
from holdfast.events import Event
from holdfast.store.postgres import pool
from tests.stores.postgres.shared import connected, opened
from tests.stores.postgres.test_pool import backend, count
from tests.support.waiting import wait_until

IDLE, BUSY = 3, 5


class Program:
    """A worker's program with a task that takes no time."""

    def __init__(self, url: str) -> None:
        self.app = App(url)
        self.seen: list[Event] = []
        self.app.events.subscribe(self.seen.append)

        @self.app.task()
        async def work(n: int) -> None: ...

        self.work = work


class Watch:
    """Keeps count of a database's connections while it is open."""

    def __init__(self) -> None:
        self.most = 0
        self.now = 0


@asynccontextmanager
async def watching(url: str) -> AsyncIterator[Watch]:
    watch, stop = Watch(), asyncio.Event()

    async def look() -> None:
        async with connected(url) as connection:
            while not stop.is_set():
                watch.now = await connection.fetchval(
                    "select count(*) from pg_stat_activity"
                    " where application_name like 'holdfast-%' and datname = current_database()"
                )
                watch.most = max(watch.most, watch.now)
                await asyncio.sleep(0.005)

    looking = asyncio.create_task(look())
    yield watch
    stop.set()
    await looking


TABLES = "holdfast.job, holdfast.ready, holdfast.lease"


@asynccontextmanager
async def standing_still(url: str) -> AsyncIterator[None]:
    """No verb gets any further: each waits for a table that somebody has locked. The locks are
    taken together or not at all: a verb may hold one of the tables and wait for another."""
    async with connected(url) as connection:
        while True:
            transaction = connection.transaction()
            await transaction.start()
            try:
                await connection.execute(f"lock table {TABLES} nowait")
            except asyncpg.LockNotAvailableError:
                await transaction.rollback()
            else:
                break
        yield
        await transaction.rollback()


async def test_an_idle_worker_needs_three_connections_and_a_busy_one_five(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.3)
    monkeypatch.setattr(pool, "PATIENCE_SECONDS", 0.2)  # a crowded machine is not a busy worker
    program = Program(url)
    async with watching(url) as watch, program.app.worker({"default": 50}) as worker:
        async with standing_still(url):
            enqueued = asyncio.create_task(program.work.enqueue_many((n,) for n in range(3_000)))
            await wait_until(lambda: watch.most > IDLE, 10, "verbs that have to wait get their own")
        await enqueued
        await worker.drain()
        assert watch.most <= BUSY, "it was busy, and had what it needs for that"

        await wait_until(lambda: watch.now <= IDLE, 10, "what a burst needed is closed")
        watch.most = 0
        await asyncio.sleep(1.5)
        assert watch.most <= IDLE


@asynccontextmanager
async def guest(url: str, connections: int) -> AsyncIterator[str]:
    """The URL of a user who may have so many connections."""
    async with connected(url) as admin:
        owner = await admin.fetchval("select current_user")
        await admin.execute(
            f"create role guest login password 'x' connection limit {connections} in role {owner}"
        )
        try:
            host = urlsplit(url).netloc.rpartition("@")[2]
            yield urlsplit(url)._replace(netloc=f"guest:x@{host}").geturl()
        finally:
            await admin.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
                " where usename = 'guest'"
            )
            await admin.execute("drop role guest")


async def allow(url: str, connections: int) -> None:
    async with connected(url) as admin:
        await admin.execute(f"alter role guest connection limit {connections}")


async def test_a_worker_that_finds_no_room_at_start_waits_and_says_so(url: str) -> None:
    async with guest(url, 0) as narrow:
        program = Program(narrow)

        async def one_job() -> None:
            async with program.app.worker({"default": 1}) as worker:
                await program.work.enqueue(1)
                await worker.drain()

        working = asyncio.create_task(one_job())

        def told() -> bool:
            return any(event.name == "worker.waits_for_room" for event in program.seen)

        await wait_until(told, 5, "it says what it waits for")
        assert not working.done()
        await allow(url, 5)
        await asyncio.wait_for(working, 10)


async def test_a_program_that_is_no_worker_hears_at_once_that_there_is_no_room(url: str) -> None:
    async with guest(url, 0) as narrow:
        with pytest.raises(StoreUnavailable, match="no room for another connection"):
            async with Program(narrow).app:
                pass


async def test_verbs_share_the_connections_there_is_room_for(url: str) -> None:
    async with guest(url, 1) as narrow, opened(f"{narrow}?pool_size=3") as store:
        answers = await asyncio.gather(*(backend(store, 0.05) for _ in range(6)))
        assert len(set(answers)) == 1


async def test_a_verb_now_and_then_beside_another_opens_no_connection(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A verb of a millisecond is done sooner on a busy connection than on a new one."""
    monkeypatch.setattr(pool, "PATIENCE_SECONDS", 5.0)
    async with opened(f"{url}?pool_size=3") as store:
        for _ in range(3):
            await asyncio.gather(backend(store), backend(store))
        assert await count(url) == 1


async def test_verbs_that_keep_waiting_get_connections_of_their_own(
    url: str,
) -> None:
    async with opened(f"{url}?pool_size=3") as store:
        for _ in range(20):
            await asyncio.gather(*(backend(store, 0.001) for _ in range(3)))
        assert await count(url) == 3
