"""Enqueue inside the caller's transaction, with every kind of connection that is accepted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, closing
from datetime import timedelta
from typing import Any, TypeVar

import asyncpg
import psycopg
import psycopg2.extras
import pytest
import sqlmodel
from django.test.utils import override_settings as overriding
from django.utils.connection import ConnectionProxy
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlmodel.ext.asyncio.session import AsyncSession as SqlmodelAsyncSession

from holdfast.clock import ManualClock
from holdfast.errors import BadOption, NoTransaction
from holdfast.job.ends import Raised, Returned
from holdfast.job.ids import JobId
from holdfast.job.loopless import run_without_loop
from holdfast.job.outcome import decide
from holdfast.job.record import Inserted, NewJob
from holdfast.job.state import JobState
from holdfast.job.unique import Unique
from holdfast.store.borrowing import (
    Borrowed,
    as_pyformat,
    recognise,
    recognise_sync,
)
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.joining import JobsWithin, Work
from holdfast.store.contract.wakeups import Topic, Wakeup
from holdfast.store.postgres.store import PostgresStore
from tests.conformance.builders import QUEUE, Scene, insert_within, insert_within_sync, new_job
from tests.support.django_connections import django_connections, on_postgres
from tests.support.processes import run_python
from tests.support.waiting import wait_until

T = TypeVar("T")


class Caller:
    """A program with a transaction of its own, on one kind of connection."""

    def __init__(self, connection: Any, commit: Any, rollback: Any, *, sync: bool) -> None:
        self.connection = connection
        self.commit = commit
        self.rollback = rollback
        self.sync = sync

    async def insert(self, store: PostgresStore, jobs: Sequence[NewJob]) -> list[Inserted]:
        return await self.within(store, lambda on: on.insert(jobs))

    async def within(self, store: PostgresStore, work: Work[T]) -> T:
        if self.sync:
            return store.jobs.within_sync(self.connection, work)
        return await store.jobs.within(self.connection, work)


def immediately(work: Callable[[], object]) -> Any:
    async def run() -> None:
        work()

    return run


class AsyncpgTransactions:
    """Transactions one after the other, as the other drivers begin them by themselves."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def begin(self) -> None:
        self._transaction = self._connection.transaction()
        await self._transaction.start()

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()
        await self.begin()


@asynccontextmanager
async def by_asyncpg(url: str) -> AsyncIterator[Caller]:
    connection = await asyncpg.connect(url)
    transactions = AsyncpgTransactions(connection)
    await transactions.begin()
    yield Caller(connection, transactions.commit, transactions.rollback, sync=False)
    await connection.close()


@asynccontextmanager
async def by_asyncpg_pool(url: str) -> AsyncIterator[Caller]:
    async with asyncpg.create_pool(url, min_size=1) as pool, pool.acquire() as connection:
        transactions = AsyncpgTransactions(connection)
        await transactions.begin()
        yield Caller(connection, transactions.commit, transactions.rollback, sync=False)


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


@asynccontextmanager
async def by_psycopg2(url: str) -> AsyncIterator[Caller]:
    rows = psycopg2.extras.RealDictCursor
    with closing(psycopg2.connect(url, cursor_factory=rows)) as connection:
        commit, rollback = immediately(connection.commit), immediately(connection.rollback)
        yield Caller(connection, commit, rollback, sync=True)


def by_django(zone: str | None) -> Callable[[str], AbstractAsyncContextManager[Caller]]:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Caller]:
        with django_connections(**on_postgres(url)) as connections:
            connection = connections["default"]
            with overriding(USE_TZ=zone is None, TIME_ZONE=zone or "UTC"):
                connection.set_autocommit(False)
                commit, rollback = immediately(connection.commit), immediately(connection.rollback)
                given = ConnectionProxy(connections, "default")
                yield Caller(given, commit, rollback, sync=True)

    return opened


SYNC_SESSIONS: dict[str, Callable[[Any], Any]] = {
    "session": Session,
    "connection": lambda engine: engine.connect(),
    "sqlmodel": sqlmodel.Session,
    "scoped": lambda engine: closing(scoped_session(sessionmaker(engine))),
}


def by_sqlalchemy(
    kind: str, *, sync: bool, driver: str = "psycopg"
) -> Callable[[str], AbstractAsyncContextManager[Caller]]:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Caller]:
        engine = create_engine(dialect(url, driver))
        with SYNC_SESSIONS[kind](engine) as given:
            commit, rollback = immediately(given.commit), immediately(given.rollback)
            yield Caller(given, commit, rollback, sync=sync)
        engine.dispose()

    return opened


ASYNC_SESSIONS: dict[str, Callable[[Any], Any]] = {
    "session": AsyncSession,
    "connection": lambda engine: engine.connect(),
    "sqlmodel": SqlmodelAsyncSession,
    "scoped": lambda engine: aclosing(
        async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
    ),
}


def by_async_sqlalchemy(
    kind: str, driver: str
) -> Callable[[str], AbstractAsyncContextManager[Caller]]:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Caller]:
        engine = create_async_engine(dialect(url, driver))
        async with ASYNC_SESSIONS[kind](engine) as given:
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
    "psycopg2": by_psycopg2,
    "session on psycopg2": by_sqlalchemy("session", sync=True, driver="psycopg2"),
    "sqlmodel": by_sqlalchemy("sqlmodel", sync=True),
    "async sqlmodel": by_async_sqlalchemy("sqlmodel", "asyncpg"),
    "scoped session": by_sqlalchemy("scoped", sync=True),
    "async scoped session": by_async_sqlalchemy("scoped", "asyncpg"),
    "django": by_django(None),
    "django without zones": by_django("America/New_York"),
}


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


async def test_reads_see_what_is_not_committed_and_read_it_as_the_store_does(
    store: PostgresStore, clock: ManualClock, caller: Caller
) -> None:
    jobs = one_of_each(clock)
    ids = [job.id for job in jobs]
    await caller.insert(store, jobs)
    got = await caller.within(store, lambda on: on.get(ids))
    live = await caller.within(store, lambda on: on.live(ids))
    await caller.commit()
    assert sorted(got, key=lambda job: job.id) == await in_order(store.jobs.get(ids))
    assert sorted(live, key=lambda job: job.id) == await in_order(store.jobs.live(ids))


async def in_order(found: Awaitable[Sequence[Any]]) -> list[Any]:
    return sorted(await found, key=lambda job: job.id)


async def test_ends_and_cancels_are_the_callers_to_commit(
    store: PostgresStore, clock: ManualClock, caller: Caller
) -> None:
    scene = await Scene.on(store, clock)
    done, failing, cancelled = [await scene.enqueue() for _ in range(3)]
    claimed = {job.id: job for job in await scene.claim(3)}
    moves = [
        decide(claimed[done], Returned('{"n": "50% $1"}')),
        decide(claimed[failing], Raised("ValueError", "no", "trace", final=True)),
    ]

    async def change(on: JobsWithin) -> tuple[list[bool], list[JobId]]:
        verdicts = await on.finish(moves)
        return [verdict.accepted for verdict in verdicts], await on.request_cancel([cancelled])

    assert await caller.within(store, change) == ([True, True], [cancelled])
    await caller.rollback()
    assert await scene.states([done, failing, cancelled]) == [JobState.RUNNING] * 3
    assert await caller.within(store, change) == ([True, True], [cancelled])
    again = await caller.within(store, lambda on: on.finish(moves))
    assert [(verdict.accepted, verdict.state) for verdict in again] == [
        (False, JobState.SUCCEEDED),
        (False, JobState.FAILED),
    ]
    await caller.commit()
    assert await scene.states([done, failing]) == [JobState.SUCCEEDED, JobState.FAILED]
    assert (await scene.job(cancelled)).cancel_requested_at is not None


def autocommitting(url: str) -> Iterator[Any]:
    """Connections that commit each statement by themselves, each of another driver."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection
    with closing(psycopg2.connect(url)) as connection:
        connection.autocommit = True
        yield connection
    engine = create_engine(dialect(url, "psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()
    with django_connections(**on_postgres(url)) as connections:
        yield connections["default"]


async def test_a_connection_in_autocommit_is_refused_until_it_has_begun(
    store: PostgresStore, url: str
) -> None:
    for connection in autocommitting(url):
        with pytest.raises(NoTransaction, match="begin one"):
            insert_within_sync(store.jobs, connection, [new_job()])
    engine = create_async_engine(dialect(url, "asyncpg"), isolation_level="AUTOCOMMIT")
    async with engine.connect() as other:
        with pytest.raises(NoTransaction):
            await insert_within(store.jobs, other, [new_job()])
    await engine.dispose()
    with psycopg.connect(url, autocommit=True) as begun, begun.transaction():
        [kept] = insert_within_sync(store.jobs, begun, [new_job()])
    assert [job.id for job in await store.jobs.get([kept.id])] == [kept.id]


async def test_django_commits_with_its_atomic_block_and_shows_its_wrappers_the_statements(
    store: PostgresStore, url: str
) -> None:
    with django_connections(**on_postgres(url)) as connections:
        connection = connections["default"]
        seen: list[str] = []

        def note(execute: Any, sql: str, *rest: Any) -> Any:
            seen.append(sql)
            return execute(sql, *rest)

        # `atomic(using=…)` asks the project's own connections, so the block is begun by hand.
        connection.set_autocommit(False)
        connection.in_atomic_block = True
        with connection.execute_wrapper(note):
            [lost] = insert_within_sync(store.jobs, connection, [new_job()])
            connection.in_atomic_block = False
            connection.rollback()
            [kept] = insert_within_sync(store.jobs, connection, [new_job()])
            connection.commit()
    assert len(seen) == 2
    assert [job.id for job in await store.jobs.get([lost.id, kept.id])] == [kept.id]


async def test_django_on_psycopg2_is_known_too(store: PostgresStore, url: str) -> None:
    """In a program of its own: Django takes psycopg 3 wherever it can be imported."""
    code, words = await run_python(ON_PSYCOPG2, url)
    assert (code, words) == (0, "")
    assert await store.jobs.count(JobFilter()) == {JobState.READY: 1}


ON_PSYCOPG2 = """
import sys
sys.modules["psycopg"] = None
from holdfast.store.open import open_store
from tests.conformance.builders import new_job
from tests.support.django_connections import django_connections, on_postgres
with django_connections(**on_postgres(sys.argv[1])) as connections:
    connection = connections["default"]
    connection.set_autocommit(False)
    jobs, job = open_store(sys.argv[1]).jobs, new_job(tags=("a b",))
    jobs.within_sync(connection, lambda on: on.insert([job]))
    connection.rollback()
    jobs.within_sync(connection, lambda on: on.insert([job]))
    [found] = jobs.within_sync(connection, lambda on: on.get([job.id]))
    assert (found.tags, found.state) == (("a b",), "ready"), found
    assert type(connection.connection).__module__.startswith("psycopg2"), connection.connection
    connection.commit()
"""


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
        [lost] = insert_within_sync(store.jobs, session, [new_job()])
        session.rollback()
        session.execute(text(f"insert into {scene_table} values (2)"))
        [kept] = insert_within_sync(store.jobs, session, [new_job()])
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
        await insert_within(store.jobs, object(), [])


def test_an_async_connection_is_refused_where_there_is_no_loop() -> None:
    class Connection:
        __module__ = "asyncpg.connection"

    recognise(Connection())
    with pytest.raises(BadOption, match=r"psycopg2 connection, .*got 'asyncpg.connection"):
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
