"""Enqueue inside the caller's transaction, with every kind of connection that is accepted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from holdfast.clock import ManualClock
from holdfast.errors import BadOption
from holdfast.job.record import Inserted, NewJob
from holdfast.job.state import JobState
from holdfast.job.unique import Unique
from holdfast.store.borrowing import (
    Borrowed,
    as_pyformat,
    recognise,
    recognise_sync,
    run_without_loop,
)
from holdfast.store.contract.records import Topic, Wakeup
from holdfast.store.postgres.store import PostgresStore
from tests.conformance.builders import QUEUE, Scene, new_job
from tests.support.backends import PostgresDatabase
from tests.support.waiting import wait_until


class Caller:
    """A program with a transaction of its own, on one kind of connection."""

    def __init__(self, connection: Any, commit: Any, rollback: Any, *, sync: bool) -> None:
        self.connection = connection
        self.commit = commit
        self.rollback = rollback
        self.sync = sync

    async def insert(self, store: PostgresStore, jobs: Sequence[NewJob]) -> list[Inserted]:
        if self.sync:
            return store.jobs.insert_within_sync(self.connection, jobs)
        return await store.jobs.insert_within(self.connection, jobs)


def immediately(work: Callable[[], object]) -> Any:
    async def run() -> None:
        work()

    return run


@asynccontextmanager
async def by_asyncpg(url: str) -> AsyncIterator[Caller]:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    yield Caller(connection, transaction.commit, transaction.rollback, sync=False)
    await connection.close()


@asynccontextmanager
async def by_asyncpg_pool(url: str) -> AsyncIterator[Caller]:
    async with asyncpg.create_pool(url, min_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield Caller(connection, transaction.commit, transaction.rollback, sync=False)


@asynccontextmanager
async def by_async_psycopg(url: str) -> AsyncIterator[Caller]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield Caller(connection, connection.commit, connection.rollback, sync=False)


def by_psycopg(*, sync: bool) -> Callable[[str], AbstractAsyncContextManager[Caller]]:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Caller]:
        with psycopg.connect(url, row_factory=psycopg.rows.dict_row) as connection:
            commit, rollback = immediately(connection.commit), immediately(connection.rollback)
            yield Caller(connection, commit, rollback, sync=sync)

    return opened


def by_sqlalchemy(kind: str, *, sync: bool) -> Callable[[str], AbstractAsyncContextManager[Caller]]:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Caller]:
        engine = create_engine(dialect(url, "psycopg"))
        with Session(engine) if kind == "session" else engine.connect() as given:
            commit, rollback = immediately(given.commit), immediately(given.rollback)
            yield Caller(given, commit, rollback, sync=sync)
        engine.dispose()

    return opened


def by_async_sqlalchemy(
    kind: str, driver: str
) -> Callable[[str], AbstractAsyncContextManager[Caller]]:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Caller]:
        engine = create_async_engine(dialect(url, driver))
        async with AsyncSession(engine) if kind == "session" else engine.connect() as given:
            yield Caller(given, given.commit, given.rollback, sync=False)
        await engine.dispose()

    return opened


def dialect(url: str, driver: str) -> str:
    return url.replace("postgres://", f"postgresql+{driver}://")


KINDS = {
    "asyncpg": by_asyncpg,
    "asyncpg pool": by_asyncpg_pool,
    "async psycopg": by_async_psycopg,
    "psycopg": by_psycopg(sync=True),
    "psycopg in a loop": by_psycopg(sync=False),
    "session": by_sqlalchemy("session", sync=True),
    "connection": by_sqlalchemy("connection", sync=True),
    "session in a loop": by_sqlalchemy("session", sync=False),
    "async session on asyncpg": by_async_sqlalchemy("session", "asyncpg"),
    "async session on psycopg": by_async_sqlalchemy("session", "psycopg"),
    "async connection on asyncpg": by_async_sqlalchemy("connection", "asyncpg"),
    "async connection on psycopg": by_async_sqlalchemy("connection", "psycopg"),
}


@pytest.fixture(scope="module")
def database(request: pytest.FixtureRequest) -> PostgresDatabase:
    return PostgresDatabase(request)


@pytest.fixture
async def url(database: PostgresDatabase) -> str:
    return await database.empty()


@pytest.fixture
async def store(url: str, clock: ManualClock) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url, clock=clock)
    await store.open()
    yield store
    await store.close()


@pytest.fixture(params=KINDS)
async def caller(request: pytest.FixtureRequest, url: str) -> AsyncIterator[Caller]:
    async with KINDS[request.param](url) as caller:
        yield caller


def one_of_each(clock: ManualClock) -> list[NewJob]:
    """Every column filled once and left empty once, so that each driver shows its types."""
    later = clock.now + timedelta(hours=1)
    return [
        new_job(),
        new_job(args='{"text":"50% of \\"$1\\" — %s"}', tags=("a b", 'c"d\\', ""), headers="{}"),
        new_job(run_at=later, deadline_at=later, priority=-5),
        new_job(delay=60.0, deadline_in=90.0, unique=Unique("key with % and $1")),
    ]


async def test_a_committed_enqueue_is_whole_and_visible_only_then(
    store: PostgresStore, clock: ManualClock, caller: Caller
) -> None:
    jobs = one_of_each(clock)
    answers = await caller.insert(store, jobs)
    assert [answer.how for answer in answers] == ["created"] * len(jobs)
    assert await store.jobs.get([job.id for job in jobs]) == []
    await caller.commit()
    found = {job.id: job for job in await store.jobs.get([job.id for job in jobs])}
    for job in jobs:
        kept = found[job.id]
        assert (kept.args_json, kept.tags, kept.headers_json) == (job.args, job.tags, job.headers)
        assert kept.priority == job.priority
    assert [found[job.id].state for job in jobs] == [
        JobState.READY,
        JobState.READY,
        JobState.SCHEDULED,
        JobState.SCHEDULED,
    ]
    assert found[jobs[2].id].due_at == clock.now + timedelta(hours=1)
    assert found[jobs[3].id].deadline_at == clock.now + timedelta(seconds=90)


async def test_what_is_rolled_back_never_was(store: PostgresStore, caller: Caller) -> None:
    job = new_job(unique=Unique("k"))
    await caller.insert(store, [job])
    await caller.rollback()
    assert await store.jobs.get([job.id]) == []
    [free] = await store.jobs.insert([new_job(unique=Unique("k"))])
    assert free.how == "created"


async def test_workers_are_woken_on_commit_and_not_before(
    store: PostgresStore, caller: Caller
) -> None:
    heard: list[Wakeup] = []
    await store.wakeups.subscribe(heard.append)
    await caller.insert(store, [new_job()])
    await store.jobs.insert([new_job(queue="other")])
    await wait_until(lambda: Wakeup(Topic.READY, "other", 1) in heard, 5, "the other queue woke")
    assert QUEUE not in {wakeup.name for wakeup in heard}
    await caller.commit()
    await wait_until(lambda: Wakeup(Topic.READY, QUEUE, 1) in heard, 5, "the queue woke")


async def test_unique_keys_are_honoured_in_every_way(
    store: PostgresStore, clock: ManualClock, caller: Caller
) -> None:
    holders = [
        (await store.jobs.insert([new_job(unique=Unique(key), delay=60.0)]))[0].id
        for key in ("keep", "replace", "debounce")
    ]
    answers = await caller.insert(
        store,
        [
            new_job(unique=Unique("keep")),
            new_job(unique=Unique("replace", on_conflict="replace")),
            new_job(unique=Unique("debounce", on_conflict="debounce"), delay=600.0),
        ],
    )
    await caller.commit()
    assert [answer.how for answer in answers] == ["existing", "replaced", "debounced"]
    assert (answers[0].id, answers[2].id) == (holders[0], holders[2])
    states = {job.id: job for job in await store.jobs.get([*holders, answers[1].id])}
    assert states[holders[1]].state is JobState.CANCELLED
    assert states[holders[1]].reason == f"replaced by {answers[1].id}"
    assert states[answers[1].id].state is JobState.READY
    assert states[holders[2]].due_at == clock.now + timedelta(seconds=600)


async def test_the_callers_own_writes_share_the_transaction(
    store: PostgresStore, url: str, scene_table: str
) -> None:
    engine = create_engine(dialect(url, "psycopg"))
    with Session(engine) as session:
        session.execute(text(f"insert into {scene_table} values (1)"))
        [lost] = store.jobs.insert_within_sync(session, [new_job()])
        session.rollback()
        session.execute(text(f"insert into {scene_table} values (2)"))
        [kept] = store.jobs.insert_within_sync(session, [new_job()])
        session.commit()
        assert session.execute(text(f"select n from {scene_table}")).scalars().all() == [2]
    engine.dispose()
    assert [job.id for job in await store.jobs.get([lost.id, kept.id])] == [kept.id]


@pytest.fixture
async def scene_table(url: str) -> AsyncIterator[str]:
    connection = await asyncpg.connect(url)
    await connection.execute("create table orders (n int)")
    yield "orders"
    await connection.execute("drop table orders")
    await connection.close()


async def test_an_unknown_connection_is_refused_even_for_an_empty_batch(
    store: PostgresStore,
) -> None:
    with pytest.raises(BadOption, match="asyncpg Connection"):
        await store.jobs.insert_within(object(), [])


def test_an_async_connection_is_refused_where_there_is_no_loop() -> None:
    class Connection:
        __module__ = "asyncpg.connection"

    recognise(Connection())
    with pytest.raises(BadOption, match=r"psycopg Connection or .*got 'asyncpg.connection"):
        recognise_sync(Connection())


async def fetched(borrowed: Borrowed) -> Sequence[Any]:
    return await borrowed.fetch("select $1", [1])


def test_a_database_of_another_make_is_refused() -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(BadOption, match="'sqlite'"):
        run_without_loop(fetched(recognise_sync(connection)))
    engine.dispose()


def test_work_that_waits_is_not_run_without_a_loop() -> None:
    with pytest.raises(RuntimeError, match="has waited"):
        run_without_loop(asyncio.sleep(0))


def test_placeholders_are_translated_and_percent_signs_doubled() -> None:
    script, values = as_pyformat("select $1, $10 % 2, '$' || $1", list(range(10)))
    assert script == "select %(p1)s, %(p10)s %% 2, '$' || %(p1)s"
    assert (values["p1"], values["p10"]) == (0, 9)


async def test_claims_follow_a_transactional_enqueue(
    store: PostgresStore, clock: ManualClock, caller: Caller
) -> None:
    scene = await Scene.on(store, clock)
    [inserted] = await caller.insert(store, [new_job()])
    assert await scene.claim() == []
    await caller.commit()
    assert [job.id for job in await scene.claim()] == [inserted.id]
