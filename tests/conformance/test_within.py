"""Jobs.within: verbs on jobs that are the caller's to commit or to roll back."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from functools import partial

import asyncpg
import msgspec
import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from holdfast.clock import ManualClock
from holdfast.errors import BadOption, NotCapable, NoTransaction, SchemaMissing
from holdfast.job.ends import End, Returned
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.state import JobState
from holdfast.job.unique import Unique
from holdfast.store.contract.joining import JobsWithin
from holdfast.store.contract.records import Capability, Verdict
from holdfast.store.contract.wakeups import Topic
from holdfast.store.open import open_store
from tests.conformance.builders import (
    QUEUE,
    RAISED,
    Scene,
    accepted,
    insert_within,
    insert_within_sync,
    new_job,
)
from tests.support.backends import PostgresDatabase, SqliteFile, opened
from tests.support.listening import PATIENCE, listening
from tests.support.pooled import direct

TRANSACTIONAL = Capability.JOIN_TRANSACTION


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


@pytest.fixture(params=["sqlite-file", "postgres"])
async def place(
    request: pytest.FixtureRequest, database: PostgresDatabase, clock: ManualClock
) -> AsyncIterator[Place]:
    """Each kind of store that a caller's transaction can be joined on."""
    if request.param == "postgres":
        url = address = await database.empty()
    else:
        url = SqliteFile(request).fresh()
        address = str(SqliteFile.path(url))
    async with opened(url, clock) as store:
        yield Place(await Scene.on(store, clock), address)


async def test_an_unknown_connection_is_refused(scene: Scene) -> None:
    expected = BadOption if TRANSACTIONAL in scene.store.capabilities else NotCapable
    with pytest.raises(expected):
        await insert_within(scene.store.jobs, object(), [new_job()])
    with pytest.raises(expected):
        insert_within_sync(scene.store.jobs, object(), [new_job()])
    assert await scene.claim() == []


async def test_sqlite3_commits_or_rolls_back(in_file: Place) -> None:
    jobs, scene = in_file.scene.store.jobs, in_file.scene
    with closing(sqlite3.connect(in_file.url)) as connection:
        lost = insert_within_sync(jobs, connection, [new_job()])[0].id
        connection.rollback()
        kept = insert_within_sync(jobs, connection, [new_job(), new_job(delay=5.0)])
        connection.commit()
    assert await scene.state(lost) is None
    assert await scene.states([one.id for one in kept]) == [JobState.READY, JobState.SCHEDULED]
    assert await scene.store.telemetry.recount() == []


async def test_sqlite3_on_another_file_is_refused(in_file: Place) -> None:
    with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(BadOption):
        insert_within_sync(in_file.scene.store.jobs, connection, [new_job()])


async def test_sqlite3_wakes_on_commit(in_file: Place) -> None:
    async with listening(in_file.scene.store) as ear:
        with closing(sqlite3.connect(in_file.url)) as connection, connection:
            insert_within_sync(in_file.scene.store.jobs, connection, [new_job()])
        assert await ear.hears(Topic.READY, QUEUE)


async def test_sqlite3_honours_unique_keys(in_file: Place) -> None:
    holder = await in_file.scene.enqueue(unique=Unique("k"))
    with closing(sqlite3.connect(in_file.url)) as connection, connection:
        insert = partial(insert_within_sync, in_file.scene.store.jobs)
        [answer] = insert(connection, [new_job(unique=Unique("k"))])
    assert (answer.how, answer.id) == ("existing", holder)


@pytest.mark.parametrize("rows", ["before", "none", "after"])
async def test_sqlite3_in_driver_autocommit_is_refused_and_keeps_the_callers_rows(
    in_file: Place, rows: str
) -> None:
    """As Django and many others open it: every statement is a transaction of its own."""
    jobs, refused = in_file.scene.store.jobs, new_job()
    with closing(sqlite3.connect(in_file.url, isolation_level=None)) as connection:
        connection.execute("create table mine (n)")
        if rows == "before":
            connection.execute("insert into mine values (1)")
        with pytest.raises(NoTransaction, match="BEGIN IMMEDIATE"):
            insert_within_sync(jobs, connection, [refused])
        assert not connection.in_transaction
        if rows == "after":
            connection.execute("insert into mine values (1)")
    with closing(sqlite3.connect(in_file.url)) as later:
        assert later.execute("select count(*) from mine").fetchone() == (int(rows != "none"),)
    assert await in_file.scene.state(refused.id) is None


async def test_sqlite3_in_driver_autocommit_is_the_callers_inside_a_transaction(
    in_file: Place,
) -> None:
    jobs = in_file.scene.store.jobs
    with closing(sqlite3.connect(in_file.url, isolation_level=None)) as connection:
        connection.execute("begin")
        [lost] = insert_within_sync(jobs, connection, [new_job()])
        connection.execute("rollback")
        connection.execute("begin")
        [kept] = insert_within_sync(jobs, connection, [new_job()])
        connection.execute("commit")
    assert await in_file.scene.states([lost.id, kept.id]) == [None, JobState.READY]


async def test_a_sqlalchemy_connection_on_sqlite_that_has_not_begun_commits(
    in_file: Place,
) -> None:
    engine = create_engine(f"sqlite:///{in_file.url}")
    with engine.connect() as connection:
        [kept] = insert_within_sync(in_file.scene.store.jobs, connection, [new_job()])
        connection.commit()
    engine.dispose()
    assert await in_file.scene.state(kept.id) is JobState.READY


async def test_a_sqlalchemy_connection_on_sqlite_in_autocommit_is_refused(in_file: Place) -> None:
    engine = create_engine(f"sqlite:///{in_file.url}", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection, pytest.raises(NoTransaction):
        insert_within_sync(in_file.scene.store.jobs, connection, [new_job()])
    engine.dispose()


async def test_asyncpg_outside_a_transaction_is_refused(on_server: Place) -> None:
    connection = await asyncpg.connect(direct(on_server.url))
    try:
        with pytest.raises(NoTransaction, match=r"connection.transaction\(\)"):
            await insert_within(on_server.scene.store.jobs, connection, [new_job()])
    finally:
        await connection.close()


async def test_asyncpg_commits_or_rolls_back(on_server: Place) -> None:
    jobs, scene = on_server.scene.store.jobs, on_server.scene
    connection = await asyncpg.connect(direct(on_server.url))
    try:
        transaction = connection.transaction()
        await transaction.start()
        [lost] = await insert_within(jobs, connection, [new_job()])
        await transaction.rollback()
        async with listening(scene.store) as ear:
            async with connection.transaction():
                [kept] = await insert_within(jobs, connection, [new_job()])
                assert await scene.state(kept.id) is None
            assert await ear.hears(Topic.READY, QUEUE)
    finally:
        await connection.close()
    assert await scene.states([lost.id, kept.id]) == [None, JobState.READY]


async def test_a_claim_that_passed_by_a_job_being_debounced_is_woken_by_the_commit(
    on_server: Place,
) -> None:
    """The transaction locks the ready job, and a claim does not wait for it."""
    scene, hot = on_server.scene, Unique("k", on_conflict="debounce", max_wait=1.0)
    holder = await scene.enqueue(unique=hot)
    scene.clock.advance(2)
    connection = await asyncpg.connect(direct(on_server.url))
    try:
        async with listening(scene.store) as ear:
            async with connection.transaction():
                again = new_job(unique=hot, delay=1.0)
                [pushed] = await insert_within(scene.store.jobs, connection, [again])
                assert (pushed.how, pushed.id) == ("debounced", holder)
                assert await scene.claim() == []
            assert await ear.hears(Topic.READY, QUEUE)
        assert (await scene.claim_one()).id == holder
    finally:
        await connection.close()


@pytest.mark.parametrize("end", [Returned("1"), RAISED])
async def test_an_end_in_an_open_transaction_keeps_no_other_job_from_its_end(
    on_server: Place, end: End
) -> None:
    scene = on_server.scene
    mine, other = await scene.running(), await scene.running()
    connection = await asyncpg.connect(direct(on_server.url))
    try:
        async with connection.transaction():

            async def finish(jobs: JobsWithin) -> list[Verdict]:
                return await jobs.finish([decide(mine, Returned('"mine"'))])

            assert accepted(await scene.store.jobs.within(connection, finish)) == [True]
            async with asyncio.timeout(PATIENCE):
                moves = [decide(mine, RAISED), decide(other, end)]
                refused, ended = await scene.store.jobs.finish(moves)
            assert (refused.accepted, refused.state) == (False, JobState.RUNNING)
            assert refused.fence == mine.fence
            assert ended.accepted
    finally:
        await connection.close()
    assert (await scene.job(mine.id)).result == "mine"


async def test_a_job_locked_by_an_open_transaction_keeps_no_other_job_from_its_success(
    on_server: Place,
) -> None:
    """Somebody asks for a cancel and has not committed yet."""
    scene = on_server.scene
    locked, other = await scene.running(), await scene.running()
    connection = await asyncpg.connect(direct(on_server.url))
    try:
        async with connection.transaction():

            async def cancel(jobs: JobsWithin) -> list[JobId]:
                return await jobs.request_cancel([locked.id])

            assert await scene.store.jobs.within(connection, cancel) == [locked.id]
            async with asyncio.timeout(PATIENCE):
                moves = [decide(locked, Returned("1")), decide(other, Returned("2"))]
                verdicts = await scene.store.jobs.finish(moves)
            assert accepted(verdicts) == [False, True]
            assert (verdicts[0].state, verdicts[0].fence) == (JobState.RUNNING, locked.fence)
        assert accepted(await scene.store.jobs.finish(moves[:1])) == [True]
    finally:
        await connection.close()


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
                await insert_within(store.jobs, connection, [job])
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
        insert = partial(insert_within_sync, in_file.scene.store.jobs)
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
            insert = partial(insert_within, on_server.scene.store.jobs)
            [answer] = await insert(connection, [new_job(unique=Unique("k"))])
    finally:
        await connection.close()
    assert (answer.how, answer.id) == ("existing", holder)


async def test_psycopg_commits_or_rolls_back(on_server: Place) -> None:
    jobs = on_server.scene.store.jobs
    with psycopg.connect(direct(on_server.url)) as connection:
        [lost] = insert_within_sync(jobs, connection, [new_job()])
        connection.rollback()
        [kept] = insert_within_sync(jobs, connection, [new_job(tags=("a",), headers="{}")])
        connection.commit()
    assert await on_server.scene.states([lost.id, kept.id]) == [None, JobState.READY]
    assert await on_server.scene.store.telemetry.recount() == []


async def test_async_psycopg_commits_or_rolls_back(on_server: Place) -> None:
    jobs = on_server.scene.store.jobs
    async with await psycopg.AsyncConnection.connect(on_server.url) as connection:
        [lost] = await insert_within(jobs, connection, [new_job()])
        await connection.rollback()
        [kept] = await insert_within(jobs, connection, [new_job(deadline_in=9.0)])
        await connection.commit()
    assert await on_server.scene.states([lost.id, kept.id]) == [None, JobState.READY]


async def test_a_sqlalchemy_session_commits_or_rolls_back(on_server: Place) -> None:
    jobs = on_server.scene.store.jobs
    engine = create_engine(on_server.url.replace("postgres://", "postgresql+psycopg://"))
    with Session(engine) as session:
        [lost] = insert_within_sync(jobs, session, [new_job()])
        session.rollback()
        [kept] = insert_within_sync(jobs, session, [new_job()])
        session.commit()
    engine.dispose()
    assert await on_server.scene.states([lost.id, kept.id]) == [None, JobState.READY]


async def test_an_async_sqlalchemy_connection_commits_or_rolls_back(on_server: Place) -> None:
    jobs = on_server.scene.store.jobs
    engine = create_async_engine(on_server.url.replace("postgres://", "postgresql+asyncpg://"))
    async with engine.connect() as connection:
        [lost] = await insert_within(jobs, connection, [new_job()])
        await connection.rollback()
        [kept] = await insert_within(jobs, connection, [new_job()])
        await connection.commit()
    await engine.dispose()
    assert await on_server.scene.states([lost.id, kept.id]) == [None, JobState.READY]


async def test_an_id_that_another_call_has_is_refused_within_a_transaction(place: Place) -> None:
    jobs = place.scene.store.jobs
    holder = new_job()
    await jobs.insert([holder])
    other = new_job(id=holder.id, args='{"name":"Eve"}')
    with closing(_connected(place)) as connection:
        answers = insert_within_sync(jobs, connection, [new_job(), other, holder, new_job()])
        connection.commit()
    assert [answer.how for answer in answers] == ["created", "taken", "created", "created"]
    assert (await place.scene.job(holder.id)).args_json == holder.args


async def test_what_is_not_committed_is_read_on_the_callers_connection(place: Place) -> None:
    jobs = place.scene.store.jobs
    new = new_job(tags=("a",), headers="{}", delay=60.0, deadline_in=90.0)
    with closing(_connected(place)) as connection:
        insert_within_sync(jobs, connection, [new])
        assert await jobs.get([new.id]) == []
        [seen] = jobs.within_sync(connection, lambda on: on.get([new.id]))
        [live] = jobs.within_sync(connection, lambda on: on.live([new.id]))
        connection.commit()
    assert [seen] == await jobs.get([new.id])
    assert [live] == await jobs.live([new.id])


async def test_a_read_leaves_no_transaction_behind_on_sqlite(in_file: Place) -> None:
    with closing(sqlite3.connect(in_file.url)) as connection:
        found = in_file.scene.store.jobs.within_sync(connection, lambda on: on.get([new_job().id]))
        assert (found, connection.in_transaction) == ([], False)


async def test_a_finish_stands_only_if_the_caller_commits(place: Place) -> None:
    scene, jobs = place.scene, place.scene.store.jobs
    await scene.enqueue()
    [claimed] = await scene.claim()
    move = decide(claimed, Returned('"done"'))
    with closing(_connected(place)) as connection:
        [rolled_back] = jobs.within_sync(connection, lambda on: on.finish([move]))
        connection.rollback()
        assert await scene.state(claimed.id) is JobState.RUNNING
        [committed] = jobs.within_sync(connection, lambda on: on.finish([move]))
        [again] = jobs.within_sync(connection, lambda on: on.finish([move]))
        connection.commit()
    assert [rolled_back.accepted, committed.accepted, again.accepted] == [True, True, False]
    assert (again.state, again.fence) == (JobState.SUCCEEDED, claimed.fence)
    assert (await scene.job(claimed.id)).result == "done"


async def test_a_finish_with_an_old_fence_is_refused(place: Place) -> None:
    scene, jobs = place.scene, place.scene.store.jobs
    await scene.enqueue()
    [claimed] = await scene.claim()
    old = msgspec.structs.replace(decide(claimed, Returned(None)), fence=claimed.fence - 1)
    with closing(_connected(place)) as connection:
        [verdict] = jobs.within_sync(connection, lambda on: on.finish([old]))
        connection.commit()
    assert (verdict.accepted, verdict.state) == (False, JobState.RUNNING)


async def test_what_operators_do_is_the_callers_to_commit(place: Place) -> None:
    scene, jobs = place.scene, place.scene.store.jobs
    waiting = await scene.enqueue(delay=60.0)
    running = await scene.enqueue()
    await scene.claim()
    with closing(_connected(place)) as connection:

        async def change(on: JobsWithin) -> list[list[JobId]]:
            return [
                await on.reprioritise([waiting], 7),
                await on.request_cancel([running]),
            ]

        assert jobs.within_sync(connection, change) == [[waiting], [running]]
        connection.rollback()
        assert (await scene.job(waiting)).priority == 0
        assert (await scene.job(running)).cancel_requested_at is None
        jobs.within_sync(connection, change)
        connection.commit()
    assert (await scene.job(waiting)).priority == 7
    assert (await scene.job(running)).cancel_requested_at is not None


async def test_a_database_without_our_schema_is_named(database: PostgresDatabase) -> None:
    unmigrated = database.fresh()
    with psycopg.connect(direct(unmigrated)) as connection:
        with pytest.raises(SchemaMissing, match=r"of this connection.*holdfast migrate"):
            insert_within_sync(open_store(unmigrated).jobs, connection, [new_job()])
        connection.rollback()


@pytest.mark.parametrize("locked", [False, True])
async def test_the_first_write_to_a_new_file_makes_the_tables_and_a_rollback_takes_them_back(
    request: pytest.FixtureRequest, locked: bool
) -> None:
    """Also while the caller's transaction keeps everybody else from writing."""
    url = SqliteFile(request).fresh()
    store, job = open_store(url), new_job()

    async def get(jobs: JobsWithin) -> object:
        return await jobs.get([job.id])

    with closing(sqlite3.connect(SqliteFile.path(url))) as connection:
        if locked:
            connection.execute("create table mine (n)")
            connection.execute("insert into mine values (1)")
        with pytest.raises(SchemaMissing, match="holdfast migrate"):
            store.jobs.within_sync(connection, get)  # what only reads makes no tables
        for end in (connection.rollback, connection.commit):
            assert insert_within_sync(store.jobs, connection, [job])[0].how == "created"
            end()
    async with opened(url) as later:
        assert [found.id for found in await later.jobs.get([job.id])] == [job.id]


def _connected(place: Place) -> sqlite3.Connection | psycopg.Connection[tuple[object, ...]]:
    if place.url.startswith("postgres"):
        return psycopg.connect(direct(place.url))
    return sqlite3.connect(place.url)
