"""holdfast.fencing: an attempt that has lost its job writes nothing outside of the store either."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiosqlite
import asyncpg
import psycopg
import psycopg2
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from holdfast import BadOption, Context, FenceTableMissing, NoTransaction, Outrun
from holdfast.fencing import TABLE, fence_headers, guard, guard_sync, precondition
from tests.support.backends import PostgresDatabase

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)


def attempt(job: str = "a", fence: int = 1, after: float = 0) -> Context:
    """An attempt of this job, claimed so many seconds after noon."""
    claimed = NOON + timedelta(seconds=after)
    facts = SimpleNamespace(job=SimpleNamespace(id=job), fence=fence, claimed_at=claimed)
    return cast("Context", facts)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute(TABLE)
    return tmp_path / "shop.db"


@pytest.fixture(scope="module")
def database(request: pytest.FixtureRequest) -> PostgresDatabase:
    return PostgresDatabase(request)


@pytest.fixture
async def server(database: PostgresDatabase) -> str:
    url = await database.empty()
    async with _plain_asyncpg(url) as connection:
        await connection.execute("drop table if exists resource_fence")
        await connection.execute(TABLE)
    return url


@asynccontextmanager
async def _plain_asyncpg(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


# What is older ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "passes"),
    [
        pytest.param(attempt(fence=2), attempt(fence=3), True, id="a later attempt"),
        pytest.param(attempt(fence=3), attempt(fence=3), True, id="the same attempt again"),
        pytest.param(attempt(fence=3), attempt(fence=2), False, id="an earlier attempt"),
        pytest.param(
            attempt(fence=3), attempt(fence=2, after=9), False, id="a clock that was set back"
        ),
        pytest.param(attempt("b"), attempt("a", after=1), True, id="another job, claimed later"),
        pytest.param(
            attempt("b", after=1), attempt("a", 7), False, id="another job, claimed earlier"
        ),
    ],
)
def test_only_the_newest_attempt_writes(
    path: Path, first: Context, second: Context, passes: bool
) -> None:
    with closing(sqlite3.connect(path)) as shop:
        guard_sync(shop, first, "invoice:42")
        shop.commit()
        if passes:
            guard_sync(shop, second, "invoice:42")
        else:
            with pytest.raises(Outrun, match="a newer attempt than this one"):
                guard_sync(shop, second, "invoice:42")
        guard_sync(shop, second, "invoice:43")


def test_an_attempt_that_was_outrun_leaves_no_row_of_its_work(path: Path) -> None:
    with closing(sqlite3.connect(path)) as shop:
        shop.execute("create table invoice (id)")
        guard_sync(shop, attempt(fence=2), "invoice:42")
        shop.commit()
        shop.execute("insert into invoice values (42)")
        with pytest.raises(Outrun), shop:
            guard_sync(shop, attempt(fence=1), "invoice:42")
        assert shop.execute("select count(*) from invoice").fetchone() == (0,)


async def test_two_attempts_write_one_after_the_other(server: str) -> None:
    async with _plain_asyncpg(server) as old, _plain_asyncpg(server) as new:
        transaction = new.transaction()
        await transaction.start()
        await guard(new, attempt(fence=2), "invoice:42")
        async with old.transaction():
            waiting = asyncio.ensure_future(guard(old, attempt(fence=1), "invoice:42"))
            await asyncio.wait([waiting], timeout=0.05)
            assert not waiting.done(), "the row is locked until the newer attempt commits"
            await transaction.commit()
            with pytest.raises(Outrun):
                await waiting


# Drivers ----------------------------------------------------------------------------------


async def test_every_async_driver_is_known(path: Path, server: str) -> None:
    outrun = attempt(fence=1)
    async with _plain_asyncpg(server) as connection, connection.transaction():
        await guard(connection, attempt(fence=5), "a")
    async with await psycopg.AsyncConnection.connect(server) as psycopg_connection:
        with pytest.raises(Outrun):
            await guard(psycopg_connection, outrun, "a")
    engine = create_async_engine(server.replace("postgres://", "postgresql+asyncpg://"))
    async with engine.begin() as sqlalchemy_connection:
        with pytest.raises(Outrun):
            await guard(sqlalchemy_connection, outrun, "a")
    await engine.dispose()
    async with aiosqlite.connect(path) as sqlite_connection:
        await guard(sqlite_connection, attempt(fence=5), "a")
        await sqlite_connection.commit()
        with pytest.raises(Outrun):
            await guard(sqlite_connection, outrun, "a")


def sync_connections(path: Path, server: str) -> Iterator[tuple[Any, Callable[[], None]]]:
    with psycopg.connect(server) as one:
        yield one, one.commit
    with closing(psycopg2.connect(server)) as other:
        yield other, other.commit
    for url in (server.replace("postgres://", "postgresql+psycopg://"), f"sqlite:///{path}"):
        with Session(create_engine(url)) as session:
            yield session, session.commit
    with closing(sqlite3.connect(path)) as shop:
        yield shop, shop.commit


def test_every_driver_without_a_loop_is_known(path: Path, server: str) -> None:
    for number, (connection, commit) in enumerate(sync_connections(path, server), 5):
        guard_sync(connection, attempt(fence=number), "a")
        commit()
        with pytest.raises(Outrun):
            guard_sync(connection, attempt(fence=1), "a")


# What is refused --------------------------------------------------------------------------


async def test_a_connection_in_no_transaction_is_refused(path: Path, server: str) -> None:
    async with _plain_asyncpg(server) as connection:
        with pytest.raises(NoTransaction):
            await guard(connection, attempt(), "a")
    with closing(sqlite3.connect(path, isolation_level=None)) as shop, pytest.raises(NoTransaction):
        guard_sync(shop, attempt(), "a")


async def test_a_database_without_the_table_says_how_to_make_it(
    tmp_path: Path, server: str
) -> None:
    with (
        closing(sqlite3.connect(tmp_path / "other.db")) as other,
        pytest.raises(FenceTableMissing, match="create table resource_fence"),
    ):
        guard_sync(other, attempt(), "a")
    async with _plain_asyncpg(server) as connection:
        await connection.execute("drop table resource_fence")
        with pytest.raises(FenceTableMissing, match="migrations of your database"):
            async with connection.transaction():
                await guard(connection, attempt(), "a")


@pytest.mark.parametrize("resource", ["", "x" * 501, 7, None, "a\0b"])
def test_a_resource_needs_a_name_that_can_be_kept(path: Path, resource: Any) -> None:
    with closing(sqlite3.connect(path)) as shop, pytest.raises(BadOption, match="resource"):
        guard_sync(shop, attempt(), resource)


@pytest.mark.parametrize("connection", [None, object(), "sqlite:///a.db", threading.Lock()])
def test_what_is_no_connection_is_refused(connection: Any) -> None:
    with pytest.raises(BadOption, match="connection"):
        guard_sync(connection, attempt(), "a")


# Services and buckets ---------------------------------------------------------------------


def test_headers_name_the_job_once_for_all_attempts_and_the_fence_of_this_one() -> None:
    first, second = fence_headers(attempt(fence=1)), fence_headers(attempt(fence=2))
    assert first["Idempotency-Key"] == second["Idempotency-Key"] == "a"
    assert (first["Holdfast-Fence"], second["Holdfast-Fence"]) == ("1", "2")


def test_an_object_is_replaced_only_as_it_was_seen() -> None:
    new = precondition(attempt(fence=2), None, {})
    assert (new.if_none_match, new.if_match) == ("*", None)
    seen = precondition(attempt(fence=3), "v1", new.metadata)
    assert (seen.if_none_match, seen.if_match) == (None, "v1")
    with pytest.raises(Outrun):
        precondition(attempt(fence=1), "v1", new.metadata)
    other = precondition(attempt("b", fence=1), "v1", {"Holdfast-Job": "a", "Holdfast-Fence": "9"})
    assert other.if_match == "v1", "the fences of two jobs cannot be compared"


@pytest.mark.parametrize("fence", ["", "many", "-"])
def test_metadata_that_somebody_else_wrote_is_no_attempt_of_ours(fence: str) -> None:
    found = precondition(attempt(), "v1", {"holdfast-job": "a", "holdfast-fence": fence})
    assert found.if_match == "v1"
