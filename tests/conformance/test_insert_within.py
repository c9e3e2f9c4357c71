"""Jobs.insert_within: an enqueue that is the caller's to commit or to roll back."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from typing import Literal

import asyncpg
import msgspec
import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from holdfast.clock import ManualClock
from holdfast.errors import BadOption, NotCapable
from holdfast.job.state import JobState
from holdfast.job.unique import Unique
from holdfast.store.contract.records import Capability, Topic
from tests.conformance.builders import QUEUE, Scene, new_job
from tests.conformance.test_wakeups import listening
from tests.support.backends import PostgresDatabase, SqliteFile, opened
from tests.support.pooled import direct

TRANSACTIONAL = Capability.TRANSACTIONAL_ENQUEUE


class Place:
    """A store and the address that a caller's own driver would use."""

    def __init__(self, scene: Scene, url: str) -> None:
        self.scene = scene
        self.url = url


@pytest.fixture
async def in_file(request: pytest.FixtureRequest, clock: ManualClock) -> AsyncIterator[Place]:
    url = SqliteFile(request).fresh()
    async with opened(url, clock) as store:
        yield Place(await Scene.on(store, clock), str(SqliteFile.path(url)))


@pytest.fixture(scope="module")
def database(request: pytest.FixtureRequest) -> PostgresDatabase:
    return PostgresDatabase(request)


@pytest.fixture
async def on_server(database: PostgresDatabase, clock: ManualClock) -> AsyncIterator[Place]:
    url = await database.empty()
    async with opened(url, clock) as store:
        yield Place(await Scene.on(store, clock), url)


async def test_an_unknown_connection_is_refused(scene: Scene) -> None:
    expected = BadOption if TRANSACTIONAL in scene.store.capabilities else NotCapable
    with pytest.raises(expected):
        await scene.store.jobs.insert_within(object(), [new_job()])
    with pytest.raises(expected):
        scene.store.jobs.insert_within_sync(object(), [new_job()])
    assert await scene.claim() == []


async def test_sqlite3_commits_or_rolls_back(in_file: Place) -> None:
    jobs, scene = in_file.scene.store.jobs, in_file.scene
    with closing(sqlite3.connect(in_file.url)) as connection:
        lost = jobs.insert_within_sync(connection, [new_job()])[0].id
        connection.rollback()
        kept = jobs.insert_within_sync(connection, [new_job(), new_job(delay=5.0)])
        connection.commit()
    assert await scene.state(lost) is None
    assert await scene.states([one.id for one in kept]) == [JobState.READY, JobState.SCHEDULED]


async def test_sqlite3_on_another_file_is_refused(in_file: Place) -> None:
    with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(BadOption):
        in_file.scene.store.jobs.insert_within_sync(connection, [new_job()])


async def test_sqlite3_wakes_on_commit(in_file: Place) -> None:
    async with listening(in_file.scene.store) as ear:
        with closing(sqlite3.connect(in_file.url)) as connection, connection:
            in_file.scene.store.jobs.insert_within_sync(connection, [new_job()])
        assert await ear.hears(Topic.READY, QUEUE)


async def test_sqlite3_honours_unique_keys(in_file: Place) -> None:
    holder = await in_file.scene.enqueue(unique=Unique("k"))
    with closing(sqlite3.connect(in_file.url)) as connection, connection:
        insert = in_file.scene.store.jobs.insert_within_sync
        [answer] = insert(connection, [new_job(unique=Unique("k"))])
    assert (answer.how, answer.id) == ("existing", holder)


@pytest.mark.parametrize("rows", ["before", "none", "after"])
async def test_sqlite3_in_driver_autocommit_keeps_the_job_and_the_callers_rows(
    in_file: Place, rows: str
) -> None:
    """As Django and many others open it: every statement is a transaction of its own."""
    jobs = in_file.scene.store.jobs
    with closing(sqlite3.connect(in_file.url, isolation_level=None)) as connection:
        connection.execute("create table mine (n)")
        if rows == "before":
            connection.execute("insert into mine values (1)")
        [kept] = jobs.insert_within_sync(connection, [new_job()])
        assert not connection.in_transaction
        if rows == "after":
            connection.execute("insert into mine values (1)")
    with closing(sqlite3.connect(in_file.url)) as later:
        assert later.execute("select count(*) from mine").fetchone() == (int(rows != "none"),)
    assert await in_file.scene.state(kept.id) is JobState.READY


async def test_sqlite3_in_driver_autocommit_writes_all_jobs_or_none(in_file: Place) -> None:
    jobs, taken = in_file.scene.store.jobs, new_job()
    broken = msgspec.structs.replace(new_job(), args=object())
    with closing(sqlite3.connect(in_file.url, isolation_level=None)) as connection:
        with pytest.raises(sqlite3.Error):
            jobs.insert_within_sync(connection, [taken, broken])
        assert not connection.in_transaction
    assert await in_file.scene.state(taken.id) is None


async def test_sqlite3_in_driver_autocommit_is_the_callers_inside_a_transaction(
    in_file: Place,
) -> None:
    jobs = in_file.scene.store.jobs
    with closing(sqlite3.connect(in_file.url, isolation_level=None)) as connection:
        connection.execute("begin")
        [lost] = jobs.insert_within_sync(connection, [new_job()])
        connection.execute("rollback")
        connection.execute("begin")
        [kept] = jobs.insert_within_sync(connection, [new_job()])
        connection.execute("commit")
    assert await in_file.scene.states([lost.id, kept.id]) == [None, JobState.READY]


@pytest.mark.parametrize("level", ["SERIALIZABLE", "AUTOCOMMIT"])
async def test_a_sqlalchemy_connection_on_sqlite_that_has_not_begun_commits(
    in_file: Place, level: Literal["SERIALIZABLE", "AUTOCOMMIT"]
) -> None:
    engine = create_engine(f"sqlite:///{in_file.url}", isolation_level=level)
    with engine.connect() as connection:
        [kept] = in_file.scene.store.jobs.insert_within_sync(connection, [new_job()])
        connection.commit()
    engine.dispose()
    assert await in_file.scene.state(kept.id) is JobState.READY


async def test_asyncpg_commits_or_rolls_back(on_server: Place) -> None:
    jobs, scene = on_server.scene.store.jobs, on_server.scene
    connection = await asyncpg.connect(direct(on_server.url))
    try:
        transaction = connection.transaction()
        await transaction.start()
        [lost] = await jobs.insert_within(connection, [new_job()])
        await transaction.rollback()
        async with listening(scene.store) as ear:
            async with connection.transaction():
                [kept] = await jobs.insert_within(connection, [new_job()])
                assert await scene.state(kept.id) is None
            assert await ear.hears(Topic.READY, QUEUE)
    finally:
        await connection.close()
    assert await scene.states([lost.id, kept.id]) == [None, JobState.READY]


async def test_asyncpg_counts_deadline_and_delay_from_the_call_not_from_the_begin(
    database: PostgresDatabase,
) -> None:
    """A transaction that has worked for a minute does not enqueue jobs that are late already."""
    url = await database.empty()
    connection = await asyncpg.connect(direct(url))
    try:
        async with opened(url) as store, connection.transaction():
            called = await connection.fetchval("select clock_timestamp() from pg_sleep(0.05)")
            waiting = Unique("k", on_conflict="debounce")
            jobs = [
                new_job(deadline_in=10.0),
                new_job(delay=10.0, deadline_in=10.0),
                new_job(delay=5.0, unique=waiting),
                new_job(delay=10.0, unique=waiting),
            ]
            for job in jobs:
                await store.jobs.insert_within(connection, [job])
            due = await connection.fetch("select due_at from holdfast.scheduled")
            deadlines = await connection.fetch("select at from holdfast.deadline")
            made = await connection.fetch("select created_at from holdfast.job")
    finally:
        await connection.close()
    assert len(due) == len(deadlines) == 2
    assert min(row[0] for row in [*due, *deadlines]) >= called + timedelta(seconds=10)
    assert min(row[0] for row in made) >= called


async def test_sqlite3_counts_deadline_and_delay_from_the_call_not_from_the_begin(
    in_file: Place,
) -> None:
    with closing(sqlite3.connect(in_file.url)) as connection, connection:
        connection.execute("begin immediate")
        in_file.scene.clock.advance(60)
        insert = in_file.scene.store.jobs.insert_within_sync
        [dated] = insert(connection, [new_job(deadline_in=10.0, delay=5.0)])
    in_file.scene.clock.advance(4)
    assert (await in_file.scene.store.jobs.promote_due(1)).count == 0
    in_file.scene.clock.advance(1)
    assert (await in_file.scene.store.jobs.promote_due(1)).count == 1
    assert await in_file.scene.store.jobs.past_deadline(1) == []
    assert await in_file.scene.state(dated.id) is JobState.READY


async def test_asyncpg_honours_unique_keys(on_server: Place) -> None:
    holder = await on_server.scene.enqueue(unique=Unique("k"))
    connection = await asyncpg.connect(direct(on_server.url))
    try:
        async with connection.transaction():
            insert = on_server.scene.store.jobs.insert_within
            [answer] = await insert(connection, [new_job(unique=Unique("k"))])
    finally:
        await connection.close()
    assert (answer.how, answer.id) == ("existing", holder)


async def test_psycopg_commits_or_rolls_back(on_server: Place) -> None:
    jobs = on_server.scene.store.jobs
    with psycopg.connect(direct(on_server.url)) as connection:
        [lost] = jobs.insert_within_sync(connection, [new_job()])
        connection.rollback()
        [kept] = jobs.insert_within_sync(connection, [new_job(tags=("a",), headers="{}")])
        connection.commit()
    assert await on_server.scene.states([lost.id, kept.id]) == [None, JobState.READY]


async def test_async_psycopg_commits_or_rolls_back(on_server: Place) -> None:
    jobs = on_server.scene.store.jobs
    async with await psycopg.AsyncConnection.connect(on_server.url) as connection:
        [lost] = await jobs.insert_within(connection, [new_job()])
        await connection.rollback()
        [kept] = await jobs.insert_within(connection, [new_job(deadline_in=9.0)])
        await connection.commit()
    assert await on_server.scene.states([lost.id, kept.id]) == [None, JobState.READY]


async def test_a_sqlalchemy_session_commits_or_rolls_back(on_server: Place) -> None:
    jobs = on_server.scene.store.jobs
    engine = create_engine(on_server.url.replace("postgres://", "postgresql+psycopg://"))
    with Session(engine) as session:
        [lost] = jobs.insert_within_sync(session, [new_job()])
        session.rollback()
        [kept] = jobs.insert_within_sync(session, [new_job()])
        session.commit()
    engine.dispose()
    assert await on_server.scene.states([lost.id, kept.id]) == [None, JobState.READY]


async def test_an_async_sqlalchemy_connection_commits_or_rolls_back(on_server: Place) -> None:
    jobs = on_server.scene.store.jobs
    engine = create_async_engine(on_server.url.replace("postgres://", "postgresql+asyncpg://"))
    async with engine.connect() as connection:
        [lost] = await jobs.insert_within(connection, [new_job()])
        await connection.rollback()
        [kept] = await jobs.insert_within(connection, [new_job()])
        await connection.commit()
    await engine.dispose()
    assert await on_server.scene.states([lost.id, kept.id]) == [None, JobState.READY]


async def test_an_id_that_another_call_has_is_refused_within_a_transaction(
    in_file: Place, on_server: Place
) -> None:
    for place in (in_file, on_server):
        jobs = place.scene.store.jobs
        holder = new_job()
        await jobs.insert([holder])
        other = new_job(id=holder.id, args='{"name":"Eve"}')
        with closing(_connected(place)) as connection:
            answers = jobs.insert_within_sync(connection, [new_job(), other, holder, new_job()])
            connection.commit()
        assert [answer.how for answer in answers] == ["created", "taken", "created", "created"]
        assert (await place.scene.job(holder.id)).args_json == holder.args


def _connected(place: Place) -> sqlite3.Connection | psycopg.Connection[tuple[object, ...]]:
    if place.url.startswith("postgres"):
        return psycopg.connect(direct(place.url))
    return sqlite3.connect(place.url)
