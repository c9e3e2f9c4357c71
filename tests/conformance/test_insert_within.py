"""Jobs.insert_within: an enqueue that is the caller's to commit or to roll back."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from holdfast.clock import ManualClock
from holdfast.errors import BadOption, NotCapable
from holdfast.job import JobState, Unique
from holdfast.store.records import Capability, Topic
from tests.backends import PostgresDatabase, SqliteFile, opened
from tests.conformance.builders import QUEUE, Scene, new_job
from tests.conformance.test_wakeups import listening

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


async def test_asyncpg_commits_or_rolls_back(on_server: Place) -> None:
    jobs, scene = on_server.scene.store.jobs, on_server.scene
    connection = await asyncpg.connect(on_server.url)
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


async def test_asyncpg_honours_unique_keys(on_server: Place) -> None:
    holder = await on_server.scene.enqueue(unique=Unique("k"))
    connection = await asyncpg.connect(on_server.url)
    try:
        async with connection.transaction():
            insert = on_server.scene.store.jobs.insert_within
            [answer] = await insert(connection, [new_job(unique=Unique("k"))])
    finally:
        await connection.close()
    assert (answer.how, answer.id) == ("existing", holder)


async def test_psycopg_commits_or_rolls_back(on_server: Place) -> None:
    jobs = on_server.scene.store.jobs
    with psycopg.connect(on_server.url) as connection:
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
        assert (await place.scene.job(holder.id)).args == holder.args


def _connected(place: Place) -> sqlite3.Connection | psycopg.Connection[tuple[object, ...]]:
    if place.url.startswith("postgres"):
        return psycopg.connect(place.url)
    return sqlite3.connect(place.url)
