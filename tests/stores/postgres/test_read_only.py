"""A server that takes no writes for a while, as in maintenance or after a failover.

A session keeps the `default_transaction_read_only` that its database had when it was opened. So a
session that was opened in that time refuses every write for as long as it lives, whatever the
server would take by then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from holdfast import App
from holdfast.errors import StoreUnavailable
from holdfast.events import Event
from holdfast.job.ends import Raised
from holdfast.job.ids import WorkerId
from holdfast.job.outcome import decide
from holdfast.job.record import Claimed
from holdfast.store import listening
from holdfast.store.contract.records import Want
from holdfast.store.contract.wakeups import Topic, Wakeup
from holdfast.store.contract.workers import Held
from holdfast.store.postgres.connection import Session
from holdfast.store.postgres.store import PostgresStore
from tests.conformance.builders import LONG, QUEUE, RETURNED, TASK, new_job
from tests.stores.postgres.shared import connected, hired, opened, terminate, until_blocked
from tests.stores.postgres.test_pool import backend, backends, count
from tests.support.backends import PostgresDatabase
from tests.support.waiting import slowness, wait_until

WITHIN_SECONDS = 2.0
"""How soon everything is to work again."""


@pytest.fixture
async def url(database: PostgresDatabase) -> str:
    """A database of its own, since its settings are changed."""
    return await database.own()


async def set_read_only(url: str, on: bool) -> None:
    """For sessions that are opened from now on."""
    async with connected(url) as admin:
        await admin.execute("set session characteristics as transaction read write")
        name = await admin.fetchval("select quote_ident(current_database())")
        setting = "set default_transaction_read_only = on" if on else "reset all"
        await admin.execute(f"alter database {name} {setting}")


@asynccontextmanager
async def only_reads(url: str) -> AsyncIterator[None]:
    """The server cuts all connections, and the sessions that are opened now take no writes."""
    await set_read_only(url, on=True)
    await terminate(url)
    yield
    await set_read_only(url, on=False)


class Scene:
    """A store with a worker that runs a job."""

    def __init__(self, store: PostgresStore, worker: WorkerId, job: Claimed) -> None:
        self.store = store
        self.worker = worker
        self.job = job


@asynccontextmanager
async def working(url: str) -> AsyncIterator[Scene]:
    async with opened(url) as store:
        worker = await hired(store)
        await store.jobs.insert([new_job()])
        [job] = await store.jobs.claim(worker, [Want(QUEUE, 1)], [TASK])
        yield Scene(store, worker, job)


async def insert(scene: Scene) -> bool:
    [inserted] = await scene.store.jobs.insert([new_job()])
    return inserted.how == "created"


async def insert_many(scene: Scene) -> bool:
    return len(await scene.store.jobs.insert([new_job() for _ in range(1_000)])) == 1_000


async def beat(scene: Scene) -> bool:
    held = [Held(scene.job.id, scene.job.fence)]
    answer = await scene.store.workers.heartbeat(scene.worker, LONG, held)
    return answer.known and not answer.lost


async def succeed(scene: Scene) -> bool:
    [verdict] = await scene.store.jobs.finish([decide(scene.job, RETURNED)])
    return verdict.accepted


async def fail(scene: Scene) -> bool:
    [verdict] = await scene.store.jobs.finish([decide(scene.job, Raised("E", "no"))])
    return verdict.accepted


async def claim(scene: Scene) -> bool:
    return await scene.store.jobs.claim(scene.worker, [Want(QUEUE, 1)], [TASK]) == []


Verb = Callable[[Scene], Awaitable[bool]]


@pytest.mark.parametrize("options", ["", "?pooler=true", "?target_session_attrs=read-write"])
@pytest.mark.parametrize("verb", [insert, insert_many, beat, succeed, fail, claim])
async def test_what_a_read_only_server_refused_is_taken_as_soon_as_it_takes_writes(
    url: str, verb: Verb, options: str
) -> None:
    async with working(url + options) as scene:
        async with only_reads(url):
            with pytest.raises(StoreUnavailable, match=r"read-only transaction|TargetServer"):
                await verb(scene)
        assert await verb(scene)


@pytest.mark.parametrize("verb", [insert, beat])
async def test_a_session_that_refuses_a_write_is_replaced_before_the_caller_hears_of_it(
    url: str, verb: Verb
) -> None:
    """By then the server takes writes, which only a new session finds out."""
    async with working(f"{url}?pool_size=1") as scene:
        async with only_reads(url):
            before = await backend(scene.store)
        assert await backend(scene.store) == before
        assert await verb(scene)
        assert await backend(scene.store) != before


async def test_one_refused_write_closes_the_idle_sessions_too(url: str) -> None:
    async with opened(f"{url}?pool_size=3") as store:
        async with only_reads(url):
            old = await backends(store, url, 3)
            assert len(old) == 3
        await store.jobs.insert([new_job()])
        assert await backend(store) not in old
        assert await count(url) == 1


async def test_a_session_in_use_at_the_refusal_is_closed_when_its_verb_has_ended(url: str) -> None:
    async def wait_at_the_gate(session: Session) -> int:
        found = await session.connection.fetchval(
            "select pg_backend_pid() from pg_advisory_xact_lock_shared(1)"
        )
        return int(found)

    async with opened(f"{url}?pool_size=2") as store:
        async with only_reads(url), connected(url) as gate:
            await gate.execute("select pg_advisory_lock(1)")
            reading = asyncio.create_task(store._connections.run(wait_at_the_gate))
            await until_blocked(url)
            with pytest.raises(StoreUnavailable):
                await store.jobs.insert([new_job()])
        old = await reading  # whoever held the gate is gone
        assert old not in await backends(store, url, 2)


async def test_a_worker_goes_on_with_its_lease_and_its_ends_when_the_server_takes_writes(
    url: str,
) -> None:
    app, seen = App(url), list[Event]()
    app.events.subscribe(seen.append)
    began, go_on = asyncio.Event(), asyncio.Event()

    @app.task()
    async def work() -> str:
        began.set()
        await go_on.wait()
        return "kept"

    def told(name: str) -> bool:
        return any(event.name == name for event in seen)

    async with app.worker({"default": 1}, lease=30.0):
        handle = await work.enqueue()
        await asyncio.wait_for(began.wait(), 10)
        async with only_reads(url):
            go_on.set()
            await wait_until(lambda: told("worker.store_unavailable"), 10, "an end is refused")
            await wait_until(lambda: told("heartbeat.failed"), 10, "a heartbeat is refused")
        writable = time.monotonic()
        await wait_until(lambda: told("heartbeat.recovered"), 20, "the lease is prolonged")
        assert await handle.result(timeout=20) == "kept"
        assert time.monotonic() - writable < WITHIN_SECONDS * slowness()
        assert not told("job.end_refused")


async def test_a_listener_on_a_server_that_takes_no_writes_looks_for_another_one(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failover only the server that takes the writes notifies of them."""
    monkeypatch.setattr(listening, "ASK_AFTER_SECONDS", 0.05)
    async with opened(url) as store:
        heard: list[Wakeup] = []
        async with only_reads(url):
            await store.wakeups.subscribe(heard.append)
            await wait_until(lambda: Wakeup(Topic.READY) in heard, 10, "it listens anew")
