"""The caller's transaction on a file, with every kind of connection that is accepted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    aclosing,
    asynccontextmanager,
    closing,
)
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
import sqlmodel
from django.utils.connection import ConnectionProxy
from sqlalchemy import create_engine
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
from holdfast.job.ends import Returned
from holdfast.job.outcome import decide
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.store import Store
from tests.conformance.builders import Scene, insert_within, insert_within_sync, new_job
from tests.support.backends import opened
from tests.support.django_connections import django_connections, on_sqlite

Ends = Callable[[], Any]
Opened = AbstractAsyncContextManager[tuple[Any, Ends, Ends]]


@asynccontextmanager
async def by_aiosqlite(path: str) -> AsyncIterator[tuple[Any, Ends, Ends]]:
    async with aiosqlite.connect(path) as connection:
        connection.row_factory = aiosqlite.Row
        yield connection, connection.commit, connection.rollback


def by_session(make: Callable[[Any], AbstractContextManager[Any]]) -> Callable[[str], Opened]:
    @asynccontextmanager
    async def opened(path: str) -> AsyncIterator[tuple[Any, Ends, Ends]]:
        engine = create_engine(f"sqlite:///{path}")
        with make(engine) as session:
            yield session, session.commit, session.rollback
        engine.dispose()

    return opened


def by_async_session(make: Callable[[Any], AbstractAsyncContextManager[Any]]) -> Any:
    @asynccontextmanager
    async def opened(path: str) -> AsyncIterator[tuple[Any, Ends, Ends]]:
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        async with make(engine) as session:
            yield session, session.commit, session.rollback
        await engine.dispose()

    return opened


@asynccontextmanager
async def by_django(path: str) -> AsyncIterator[tuple[Any, Ends, Ends]]:
    with django_connections(**on_sqlite(path)) as connections:
        connection = connections["default"]
        connection.ensure_connection()

        def begin() -> None:  # as `atomic()` does it
            connection.in_atomic_block = True
            connection._start_transaction_under_autocommit()

        def end(word: str) -> None:
            with connection.cursor() as cursor:
                cursor.execute(word)
            begin()

        begin()
        given = ConnectionProxy(connections, "default")
        yield given, lambda: end("COMMIT"), lambda: end("ROLLBACK")
        connection.in_atomic_block = False


def scoped(engine: Any) -> AbstractContextManager[Any]:
    return closing(scoped_session(sessionmaker(engine)))


def async_scoped(engine: Any) -> AbstractAsyncContextManager[Any]:
    return aclosing(async_scoped_session(async_sessionmaker(engine), asyncio.current_task))


KINDS: dict[str, Callable[[str], Opened]] = {
    "aiosqlite": by_aiosqlite,
    "session": by_session(Session),
    "sqlmodel": by_session(sqlmodel.Session),
    "scoped session": by_session(scoped),
    "async session": by_async_session(AsyncSession),
    "async connection": by_async_session(lambda engine: engine.connect()),
    "async sqlmodel": by_async_session(SqlmodelAsyncSession),
    "async scoped session": by_async_session(async_scoped),
    "django": by_django,
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.db")


@pytest.fixture
async def store(path: str, clock: ManualClock) -> AsyncIterator[Store]:
    async with opened(f"sqlite:///{path}", clock) as store:
        yield store


async def over(end: Ends) -> None:
    waits = end()
    if waits is not None:
        await waits


@pytest.mark.parametrize("kind", KINDS)
async def test_jobs_and_ends_are_the_callers_to_commit(
    store: Store, clock: ManualClock, path: str, kind: str
) -> None:
    jobs = store.jobs
    scene = await Scene.on(store, clock)
    await scene.enqueue()
    claimed = await scene.claim_one()
    move = decide(claimed, Returned("1"))
    async with KINDS[kind](path) as (connection, commit, rollback):
        lost, kept = new_job(), new_job(tags=("a",))
        await insert_within(jobs, connection, [lost])
        await jobs.within(connection, lambda on: on.finish([move]))
        await over(rollback)
        assert await jobs.count(JobFilter()) == {JobState.RUNNING: 1}
        await insert_within(jobs, connection, [kept])
        [verdict] = await jobs.within(connection, lambda on: on.finish([move]))
        [seen] = await jobs.within(connection, lambda on: on.get([kept.id]))
        await over(commit)
    assert (verdict.accepted, seen.tags) == (True, ("a",))
    assert await jobs.count(JobFilter()) == {JobState.READY: 1, JobState.SUCCEEDED: 1}


async def test_django_outside_atomic_is_refused(store: Store, path: str) -> None:
    with django_connections(**on_sqlite(path)) as connections:
        with pytest.raises(NoTransaction, match="atomic"):
            insert_within_sync(store.jobs, connections["default"], [new_job()])
        assert not connections["default"].connection.in_transaction


async def test_aiosqlite_in_autocommit_is_refused(store: Store, path: str) -> None:
    async with aiosqlite.connect(path, isolation_level=None) as connection:
        with pytest.raises(NoTransaction):
            await insert_within(store.jobs, connection, [new_job()])
        await connection.execute("begin")
        await insert_within(store.jobs, connection, [new_job()])
        await connection.execute("commit")
    assert await store.jobs.count(JobFilter()) == {JobState.READY: 1}


async def test_aiosqlite_is_refused_without_a_loop(store: Store, path: str) -> None:
    async with aiosqlite.connect(path) as connection:
        with pytest.raises(BadOption, match=r"sqlite3\.Connection"):
            insert_within_sync(store.jobs, connection, [new_job()])
