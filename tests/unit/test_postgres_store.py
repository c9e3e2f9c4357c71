"""What is particular to the Postgres store: its schema, its plans, its connections."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from holdfast.clock import ManualClock
from holdfast.errors import (
    BadOption,
    SchemaMissing,
    SchemaTooNew,
    StoreError,
    StoreUnavailable,
)
from holdfast.job import JobId, JobState, NewJob, Progress, Unique, WorkerId, new_worker_id
from holdfast.outcome import HandedBack, Raised, WasSuspended, decide
from holdfast.store.contract import Held, JobFilter, ProgressReport, Topic, Wakeup, Want
from holdfast.store.postgres.claiming import HIGHEST, LOWEST, SkipPoints
from holdfast.store.postgres.jobs import PostgresJobs
from holdfast.store.postgres.options import Options
from holdfast.store.postgres.scripts import load_scripts
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.postgres.wakeups import parse
from holdfast.testing.servers import PostgresServer, postgres_server
from tests.backends import PostgresDatabase
from tests.conformance.builders import (
    LONG,
    QUEUE,
    RETURNED,
    TASK,
    Scene,
    new_job,
    new_worker,
)
from tests.waiting import wait_until

GOLDEN = Path(__file__).parent.parent / "golden" / "postgres_schema.txt"


@pytest.fixture(scope="module")
def database(request: pytest.FixtureRequest) -> PostgresDatabase:
    return PostgresDatabase(request)


@pytest.fixture
async def url(database: PostgresDatabase) -> str:
    return await database.empty()


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def hired(store: PostgresStore) -> WorkerId:
    worker = new_worker()
    await store.workers.register(worker, LONG)
    return worker.id


async def claim(store: PostgresStore, worker: WorkerId, limit: int = 1) -> list[JobId]:
    return [job.id for job in await store.jobs.claim(worker, [Want(QUEUE, limit)], [TASK])]


# The schema ----------------------------------------------------------------------------------


async def described(url: str) -> str:
    """Columns, keys, indexes, view and storage of the schema, in an order that stays."""
    async with connected(url) as connection:
        columns = await connection.fetch(
            "select table_name, column_name, data_type, collation_name, is_nullable, column_default"
            " from information_schema.columns where table_schema = 'holdfast'"
            " order by table_name, ordinal_position"
        )
        indexes = await connection.fetch(
            "select indexdef from pg_indexes where schemaname = 'holdfast' order by indexname"
        )
        storage = await connection.fetch(
            "select relname, reloptions from pg_class"
            " where relnamespace = 'holdfast'::regnamespace and reloptions is not null"
            " order by relname"
        )
        view = await connection.fetchval("select pg_get_viewdef('holdfast.place'::regclass)")
    lines = [" ".join(str(value) for value in row if value is not None) for row in columns]
    lines += [row[0] for row in indexes]
    lines += [f"{row[0]} with {', '.join(row[1])}" for row in storage]
    return "\n".join([*lines, re.sub(r"\s+", " ", view).strip(), ""])


async def test_the_migrations_build_the_golden_schema(url: str) -> None:
    assert await described(url) == GOLDEN.read_text(), (
        "the schema changed: if that is meant, it needs a migration of its own, "
        f"and {GOLDEN} the new description"
    )


async def test_a_store_of_a_newer_program_is_refused(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    await PostgresStore(url).migrate()
    async with connected(url) as connection:
        await connection.execute("insert into holdfast.migration values (999, '0999_flows', 'x')")
    with pytest.raises(SchemaTooNew, match="999"):
        await PostgresStore(url).open()
    with pytest.raises(SchemaTooNew):
        await PostgresStore(url).migrate()


async def test_an_empty_database_is_migrated_only_when_told(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.new_database()
    monkeypatch.delenv("HOLDFAST_AUTO_MIGRATE", raising=False)
    with pytest.raises(SchemaMissing):
        await PostgresStore(url).open()
    monkeypatch.setenv("HOLDFAST_AUTO_MIGRATE", "1")
    async with opened(url) as store:
        assert await store.jobs.count(JobFilter()) == {}


async def test_the_printed_migrations_are_as_good_as_migrating(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    async with connected(url) as connection:
        await connection.execute(PostgresStore(url).migration_sql())
    assert await PostgresStore(url).migrate() == []
    assert await described(url) == GOLDEN.read_text()


async def test_a_schema_that_a_dba_made_is_enough_of_a_right(postgres: PostgresServer) -> None:
    url, name = postgres.new_database(), f"tenant_{secrets.token_hex(4)}"
    theirs = urlsplit(url)._replace(netloc=f"{name}:pw@{urlsplit(url).netloc.rpartition('@')[2]}")
    async with connected(url) as dba:
        await dba.execute(f"create role {name} login password 'pw'")
        await dba.execute(f"create schema holdfast authorization {name}")
        assert await PostgresStore(theirs.geturl()).migrate()
        await dba.execute(f"drop owned by {name} cascade; drop role {name}")


async def test_two_schemas_of_one_database_know_nothing_of_each_other(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_database()
    for schema in ("mine", "yours"):
        await PostgresStore(f"{url}?schema={schema}").migrate()
    async with opened(f"{url}?schema=mine") as mine, opened(f"{url}?schema=yours") as yours:
        heard: list[Wakeup] = []
        await yours.wakeups.subscribe(heard.append)
        [job] = await mine.jobs.insert([new_job(unique=Unique("k"))])
        assert await yours.jobs.get([job.id]) == []
        [other] = await yours.jobs.insert([new_job(unique=Unique("k"), queue="q")])
        assert other.how == "created"
        await wait_until(lambda: bool(heard), 5, "the listener heard its own schema")
        assert heard == [Wakeup(Topic.READY, "q")]


# The URL -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Mail", "1st", 'a"b', "a;drop", "x" * 64, "a-b"])
def test_a_schema_name_that_would_need_quoting_is_refused(name: str) -> None:
    with pytest.raises(BadOption, match="schema"):
        Options.of(f"postgres://localhost/db?schema={name}")


@pytest.mark.parametrize(
    "option", ["pool_size=0", "pool_size=many", "statement_timeout=-1", "pooler=perhaps"]
)
def test_an_option_outside_its_range_is_refused(option: str) -> None:
    with pytest.raises(BadOption, match=option.partition("=")[0]):
        Options.of(f"postgres://localhost/db?{option}")


def test_the_drivers_own_options_are_passed_on_and_ours_are_not() -> None:
    options = Options.of("postgres://u:secret@h:1/db?sslmode=require&schema=s&pool_size=3")
    assert options.dsn == "postgresql://u:secret@h:1/db?sslmode=require"
    assert (options.schema, options.pool_size) == ("s", 3)


def test_where_a_store_is_can_be_shown_without_its_password() -> None:
    options = Options.of("postgres://u:secret@h:1/db?password=hidden")
    assert options.where == "postgres://u@h:1/db (schema holdfast)"


# Plans ---------------------------------------------------------------------------------------


async def generic_plan(
    connection: asyncpg.Connection[asyncpg.Record], verb: str, types: str, values: str
) -> str:
    """The plan that a cached statement would keep, whatever its parameters."""
    script = load_scripts("holdfast")[verb]
    await connection.execute("set plan_cache_mode = force_generic_plan; set jit = off")
    await connection.execute(f"prepare looked_at ({types}) as {script}")
    rows = await connection.fetch(f"explain execute looked_at ({values})")
    return "\n".join(row[0] for row in rows)


async def test_the_generic_plan_of_a_claim_walks_the_line_without_statistics(url: str) -> None:
    async with connected(url) as connection, opened(url) as store:
        await connection.execute(
            "insert into holdfast.job (id, task, args, policy)"
            " select gen_random_uuid(), 'greet', '[]', '{}' from generate_series(1, 100000)"
        )
        await connection.execute(
            "insert into holdfast.ready (job_id, queue, priority, task)"
            " select id, 'default', 0, 'greet' from holdfast.job"
        )
        plan = await generic_plan(
            connection,
            "claim",
            "timestamptz, uuid, text[], bigint, text[], int[], text[], int[], bigint[], int[]",
            f"null, '{new_worker_id()}', '{{greet}}', 1, '{{default}}', '{{200}}', '{{default}}',"
            f" '{{{LOWEST}}}', '{{0}}', '{{{HIGHEST}}}'",
        )
        assert "Index Scan using ready_line on ready" in plan
        assert "Tid Scan on ready" in plan
        assert "Index Scan using job_pkey on job" in plan
        assert not re.search(r"Seq Scan on (ready|job|lease)", plan)
        assert not re.search(r"Hash Join|Sort Key: ready", plan)
        assert len(await claim(store, await hired(store), 200)) == 200


async def test_the_generic_plan_of_a_finish_looks_leases_up_by_key(url: str) -> None:
    async with connected(url) as connection:
        plan = await generic_plan(
            connection,
            "finish_succeeded",
            "timestamptz, uuid[], bigint[], text[], float8[]",
            "null, '{}', '{}', '{}', '{}'",
        )
    assert re.search(r"Index Scan (using|on) lease_pkey", plan)
    assert "Seq Scan on lease" not in plan
    assert "Nested Loop" not in plan


@pytest.mark.parametrize("states", [(), ("succeeded",), ("failed",), ("ready",)])
async def test_a_page_reads_no_more_of_the_history_than_it_shows(
    url: str, states: tuple[str, ...]
) -> None:
    wanted = f"'{{{','.join(states)}}}'" if states else "null"
    ended = "false" if states == ("ready",) else "true"
    script = load_scripts("holdfast")["page"]
    async with connected(url) as connection:
        await connection.execute(
            "insert into holdfast.outcome (job_id, state, queue, priority, task, attempts, crashes,"
            " fence, finished_at, expires_at) select gen_random_uuid(),"
            " case when n % 1000 = 0 then 'failed' else 'succeeded' end, 'default', 0, 'greet', 1,"
            " 0, 1, now(), now() from generate_series(1, 50000) as n"
        )
        await connection.execute("analyze holdfast.outcome")
        await connection.execute("set plan_cache_mode = force_custom_plan; set jit = off")
        await connection.execute(
            "prepare looked_at (uuid, int, uuid[], text[], text[], text[], text, timestamptz,"
            f" timestamptz, text, boolean) as {script}"
        )
        values = f"null, 50, null, {wanted}, null, null, null, null, null, null, {ended}"
        rows = await connection.fetch(f"explain (analyze) execute looked_at ({values})")
    plan = "\n".join(row[0] for row in rows)
    assert "Seq Scan on outcome" not in plan
    assert all(int(removed) < 100 for removed in re.findall(r"Rows Removed by Filter: (\d+)", plan))


# Claiming ------------------------------------------------------------------------------------


def test_a_scan_without_memory_walks_the_whole_line() -> None:
    assert SkipPoints().stretches(["a"], 0.0) == (["a"], [LOWEST], [0], [HIGHEST])


def found(priority: int, seq: int) -> list[Any]:
    row: list[Any] = [None] * 16
    row[2], row[3], row[15] = "a", priority, seq
    return row


def test_a_scan_starts_where_the_last_one_found_its_first_row() -> None:
    skip = SkipPoints()
    skip.learn([found(0, 70), found(0, 71), found(5, 9)], True, 0.0, 0.2)
    assert skip.stretches(["a"], 0.3) == (
        ["a"] * 3,
        [LOWEST, 0, 5],
        [0, 70, 9],
        [-1, 4, HIGHEST],
    )


def test_the_memory_of_a_scan_fades_with_what_the_scan_cost() -> None:
    skip = SkipPoints()
    skip.learn([found(0, 70)], True, 0.0, 0.01)
    assert skip.stretches(["a"], 0.1)[2] == [0, 70]
    assert skip.stretches(["a"], 0.2)[2] == [0]
    skip.learn([found(0, 70)], True, 0.0, 60.0)
    assert skip.stretches(["a"], 61.5)[2] == [0]


async def test_a_job_handed_back_is_next_whatever_was_claimed_since(url: str) -> None:
    async with opened(url) as store:
        worker = await hired(store)
        jobs = [new_job() for _ in range(6)]
        await store.jobs.insert(jobs)
        first, *_ = await store.jobs.claim(worker, [Want(QUEUE, 2)], [TASK])
        await claim(store, worker, 2)
        await store.jobs.finish([decide(first, HandedBack())])
        assert await claim(store, worker) == [first.id]


async def test_a_claim_whose_reply_was_lost_is_answered_by_the_next(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(url) as store:
        assert isinstance(store.jobs, PostgresJobs)
        worker, connections = await hired(store), store._connections
        jobs = [job.id for job in await store.jobs.insert([new_job() for _ in range(5)])]
        answered = connections.timed

        async def lost(*values: Any, **options: Any) -> Any:
            await answered(*values, **options)
            raise StoreUnavailable("the reply never came")

        with monkeypatch.context() as outage:
            outage.setattr(connections, "timed", lost)
            with pytest.raises(StoreUnavailable):
                await claim(store, worker, 3)
        assert await claim(store, worker, 2) == jobs[:2]
        assert await claim(store, worker, 2) == jobs[2:3]
        assert await claim(store, worker, 9) == jobs[3:]
        assert await claim(store, worker, 9) == []


async def test_a_claim_of_other_tasks_does_not_inherit_what_was_passed_over(url: str) -> None:
    async with opened(url) as store:
        worker = await hired(store)
        [early] = await store.jobs.insert([new_job("rare")])
        await store.jobs.insert([new_job() for _ in range(4)])
        [late] = await store.jobs.insert([new_job("rare")])
        assert len(await claim(store, worker, 2)) == 2
        [first] = await store.jobs.claim(worker, [Want(QUEUE, 1)], ["rare"])
        assert first.id == early.id != late.id


async def test_a_cancelled_claim_loses_no_job(url: str) -> None:
    async with opened(url) as store, connected(url) as blocker:
        worker = await hired(store)
        [job] = await store.jobs.insert([new_job()])
        async with blocker.transaction():
            await blocker.execute("lock holdfast.lease in exclusive mode")
            claiming = asyncio.create_task(claim(store, worker))
            await until_blocked(blocker)
            claiming.cancel()
            with pytest.raises(asyncio.CancelledError):
                await claiming
        assert await claim(store, worker) == [job.id]


# Unique keys ---------------------------------------------------------------------------------


async def test_many_connections_inserting_one_key_make_one_job(url: str) -> None:
    async with opened(f"{url}?pool_size=20") as store:
        keys = [f"key {n}" for n in range(5)]
        answers = await asyncio.gather(
            *(store.jobs.insert([new_job(unique=Unique(key))]) for key in keys for _ in range(20))
        )
        created = [one for [one] in answers if one.how == "created"]
        assert len(created) == len(keys)
        assert {one.id for [one] in answers} == {one.id for one in created}
        assert await store.jobs.count(JobFilter()) == {JobState.READY: len(keys)}


async def test_many_connections_taking_over_one_key_make_one_job(url: str) -> None:
    async with opened(f"{url}?pool_size=20") as store:
        worker = await hired(store)
        await store.jobs.insert([new_job(unique=Unique("k"))])
        [held] = await store.jobs.claim(worker, [Want(QUEUE, 1)], [TASK])
        await store.jobs.finish([decide(held, RETURNED)])
        answers = await asyncio.gather(
            *(store.jobs.insert([new_job(unique=Unique("k"))]) for _ in range(20))
        )
        assert [one.how for [one] in answers].count("created") == 1
        assert await store.jobs.count(JobFilter()) == {JobState.SUCCEEDED: 1, JobState.READY: 1}


async def test_requeue_and_insert_never_both_get_a_key(url: str) -> None:
    async with opened(f"{url}?pool_size=10") as store:
        worker = await hired(store)
        for n in range(10):
            key = Unique(f"k{n}")
            await store.jobs.insert([new_job(unique=key)])
            [held] = await store.jobs.claim(worker, [Want(QUEUE, 1)], [TASK])
            await store.jobs.finish([decide(held, RETURNED)])
            requeued, [inserted] = await asyncio.gather(
                store.jobs.requeue([held.id]), store.jobs.insert([new_job(unique=key)])
            )
            assert bool(requeued) != (inserted.how == "created")
            await claim(store, worker, 9)


async def test_batches_with_keys_in_opposite_order_do_not_deadlock(url: str) -> None:
    def batch(order: range) -> list[NewJob]:
        return [new_job(unique=Unique(f"{n:03}", on_conflict="debounce")) for n in order]

    async with opened(f"{url}?pool_size=6") as store, connected(url) as watch:
        counted = "select deadlocks from pg_stat_database where datname = current_database()"
        before = await watch.fetchval(counted)
        await asyncio.gather(
            *(store.jobs.insert(batch(range(100))) for _ in range(3)),
            *(store.jobs.insert(batch(range(99, -1, -1))) for _ in range(3)),
        )
        assert await store.jobs.count(JobFilter()) == {JobState.READY: 100}
        assert await watch.fetchval(counted) == before


# Bulk ----------------------------------------------------------------------------------------


async def test_a_bulk_insert_repeated_makes_no_second_job(url: str, clock: ManualClock) -> None:
    async with opened(url, clock=clock) as store:
        jobs = [new_job(delay=60.0 * (n % 2), deadline_in=600.0) for n in range(1200)]
        for batch in (jobs, jobs, [*jobs[:600], new_job()]):
            answers = await store.jobs.insert(batch)
            assert [one.id for one in answers] == [job.id for job in batch]
        expected = {JobState.READY: 601, JobState.SCHEDULED: 600}
        assert await store.jobs.count(JobFilter()) == expected
        assert await store.jobs.next_deadline_in() == 600.0
        [record] = await store.jobs.get([jobs[1].id])
        assert (record.created_at, record.due_at) == (clock.now, ManualClock(clock.now).advance(60))


async def test_a_bulk_insert_lines_up_in_its_order_and_wakes_each_queue_once(url: str) -> None:
    async with opened(url) as store:
        heard: list[Wakeup] = []
        await store.wakeups.subscribe(heard.append)
        worker = await hired(store)
        jobs = [new_job() for _ in range(600)] + [new_job(queue="mail"), new_job(delay=60.0)]
        await store.jobs.insert(jobs)
        assert await claim(store, worker, 1000) == [job.id for job in jobs[:600]]
        await wait_until(lambda: len(heard) >= 3, 5, "the listener heard of the insert")
        assert sorted(heard, key=str) == sorted(
            [Wakeup(Topic.READY, QUEUE), Wakeup(Topic.READY, "mail"), Wakeup(Topic.DUE)], key=str
        )


# Connections ---------------------------------------------------------------------------------


async def until_blocked(watch: asyncpg.Connection[asyncpg.Record]) -> None:
    async def blocked() -> bool:
        waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
        return bool(await watch.fetchval(waiting))

    await wait_until(blocked, 5, "a statement waits for a lock")


async def terminate(url: str, name: str = "holdfast-%") -> int:
    async with connected(url) as connection:
        rows = await connection.fetch(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where application_name like $1 and datname = current_database()",
            name,
        )
    return len(rows)


async def test_every_connection_says_whose_it_is(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    await PostgresStore(url).migrate()
    async with opened(url) as store, connected(url) as watch:
        await store.wakeups.subscribe(lambda _: None)
        sibling = store.sibling()
        await sibling.open()
        rows = await watch.fetch(
            "select distinct application_name from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        await sibling.close()
    names = {re.sub(r"\d+$", "N", row[0]) for row in rows}
    assert names == {"holdfast-store-N", "holdfast-store-listen-N", "holdfast-heartbeat-N"}


async def test_terminated_connections_are_replaced_without_a_word(url: str) -> None:
    async with opened(url) as store:
        worker = await hired(store)
        for _ in range(3):
            [inserted] = await store.jobs.insert([new_job()])
            assert await terminate(url)
            assert (await store.workers.heartbeat(worker, LONG, [])).known
            assert await terminate(url)
            assert [job.id for job in await store.jobs.live([inserted.id])] == [inserted.id]


async def test_a_store_out_of_reach_says_so_and_not_its_password() -> None:
    store = PostgresStore("postgres://user:s3cret@127.0.0.1:1/db")
    with pytest.raises(StoreUnavailable, match=r"postgres://user@127.0.0.1:1/db") as failure:
        await store.open()
    assert "s3cret" not in str(failure.value)
    await store.close()


async def test_a_database_that_does_not_exist_is_not_an_outage(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    postgres.drop_database(url)
    with pytest.raises(StoreError, match="does not exist") as failure:
        await PostgresStore(url).open()
    assert not isinstance(failure.value, StoreUnavailable)


async def test_a_restarted_server_is_an_outage_and_then_is_not() -> None:
    with postgres_server(own=True) as server:
        url = server.new_database()
        await PostgresStore(url).migrate()
        async with opened(f"{url}?statement_timeout=5") as store:
            [job] = await store.jobs.insert([new_job()])
            server.halt("immediate")
            with pytest.raises(StoreUnavailable):
                await store.jobs.live([job.id])
            server.resume()

            async def back() -> bool:
                try:
                    return bool(await store.jobs.live([job.id]))
                except StoreUnavailable:
                    return False

            await wait_until(back, 20, "the store is back, with its job")


async def test_a_statement_that_takes_too_long_is_an_outage(url: str) -> None:
    async with opened(f"{url}?statement_timeout=0.3") as store, connected(url) as blocker:
        async with blocker.transaction():
            await blocker.execute("lock holdfast.job in access exclusive mode")
            with pytest.raises(StoreUnavailable, match="TimeoutError"):
                await store.jobs.insert([new_job()])
        [again] = await store.jobs.insert([new_job()])
        assert again.how == "created"


async def test_a_cancelled_caller_does_not_poison_the_pool(url: str) -> None:
    async with opened(f"{url}?pool_size=1") as store, connected(url) as blocker:
        for unique in (None, Unique("k")):
            async with blocker.transaction():
                await blocker.execute("lock holdfast.job in exclusive mode")
                inserting = asyncio.create_task(store.jobs.insert([new_job(unique=unique)]))
                await until_blocked(blocker)
                inserting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await inserting
            [after] = await store.jobs.insert([new_job(unique=unique)])
            assert after.how == "created"


async def test_closing_twice_leaves_no_connection(url: str) -> None:
    store = PostgresStore(url)
    await store.open()
    await store.wakeups.subscribe(lambda _: None)
    await store.close()
    await store.close()
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.jobs.insert([new_job()])

    async def gone() -> bool:
        async with connected(url) as watch:
            left = "select count(*) from pg_stat_activity where application_name like 'holdfast-%'"
            return not await watch.fetchval(f"{left} and datname = current_database()")

    await wait_until(gone, 5, "no connection is left")


# A transaction pooler ------------------------------------------------------------------------


async def test_no_verb_needs_anything_of_its_session(url: str, clock: ManualClock) -> None:
    """Between any two verbs the session is wiped, as a pooler's other clients might do."""
    async with opened(f"{url}?pooler=true&pool_size=1", clock=clock) as store:
        wipe = Wiper(store)
        worker = await hired(store)
        jobs = store.jobs
        inserted = await wipe(jobs.insert([new_job(unique=Unique("k")), new_job()]))
        await wipe(jobs.insert([new_job(queue="bulk") for _ in range(600)]))
        first, second = await wipe(jobs.claim(worker, [Want(QUEUE, 5)], [TASK]))
        assert [first.id, second.id] == [one.id for one in inserted]
        await wipe(jobs.report_progress([ProgressReport(first.id, first.fence, Progress(0.5))]))
        beat = await wipe(store.workers.heartbeat(worker, LONG, [Held(first.id, first.fence)]))
        assert beat.known
        ends = [decide(first, RETURNED), decide(second, Raised("E", "no"))]
        assert [verdict.accepted for verdict in await wipe(jobs.finish(ends))] == [True, True]
        clock.advance(hours=1)
        assert (await wipe(jobs.promote_due(10))).count == 1
        [again] = await wipe(jobs.claim(worker, [Want(QUEUE, 5)], [TASK]))
        await wipe(jobs.finish([decide(again, WasSuspended(None))]))
        assert await wipe(jobs.resume([again.id])) == [again.id]
        assert await wipe(jobs.requeue([first.id])) == [first.id]
        assert len((await wipe(jobs.page(JobFilter(), 50))).jobs) == 50
        assert await wipe(jobs.count(JobFilter())) == {JobState.READY: 602}
        assert len(await wipe(store.queues.list())) == 2
        assert await wipe(store.telemetry.check())


class Wiper:
    """Waits for a verb, then discards all that its session remembers."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def __call__(self, verb: Any) -> Any:
        answer = await verb
        pool = self._store._connections._pool
        assert pool is not None
        async with pool.acquire() as line:
            await line.execute("discard all")
        return answer


# Wakeups -------------------------------------------------------------------------------------


async def test_a_listener_that_lost_its_line_comes_back_and_says_look_at_everything(
    url: str,
) -> None:
    async with opened(url) as store:
        heard: list[Wakeup] = []
        await store.wakeups.subscribe(heard.append)
        assert await terminate(url, "holdfast-store-listen-%") == 1
        await wait_until(lambda: Wakeup(Topic.READY) in heard, 10, "the listener is back")
        assert heard == [Wakeup(Topic.READY), Wakeup(Topic.DUE), Wakeup(Topic.SCHEDULES)]
        await store.jobs.insert([new_job(queue="mail")])
        await wait_until(lambda: Wakeup(Topic.READY, "mail") in heard, 5, "it hears again")


async def test_one_statement_wakes_each_queue_once(url: str) -> None:
    async with opened(url) as store:
        heard: list[Wakeup] = []
        await store.wakeups.subscribe(heard.append)
        await store.jobs.insert([new_job(queue=name) for name in ("a", "b", "a", "b", "a")])
        await store.jobs.insert([new_job(queue="last")])
        await wait_until(lambda: Wakeup(Topic.READY, "last") in heard, 5, "all was heard")
        assert [wakeup.name for wakeup in heard] == ["a", "b", "last"]


async def test_so_many_queues_that_no_payload_holds_them_wake_everybody(url: str) -> None:
    async with opened(url) as store:
        heard: list[Wakeup] = []
        await store.wakeups.subscribe(heard.append)
        await store.jobs.insert([new_job(queue=f"queue-with-a-long-name-{n}") for n in range(300)])
        await wait_until(lambda: bool(heard), 5, "a wakeup came")
        assert heard == [Wakeup(Topic.READY, "")]


@pytest.mark.parametrize("option", ["listen=false", "pooler=true"])
async def test_a_store_that_may_not_listen_opens_no_line_for_it(url: str, option: str) -> None:
    async with opened(f"{url}?{option}") as store, connected(url) as watch:
        await store.wakeups.subscribe(lambda _: None)
        listening = "select count(*) from pg_stat_activity where application_name like '%listen%'"
        assert await watch.fetchval(f"{listening} and datname = current_database()") == 0


async def test_a_listener_that_fails_does_not_silence_the_others(url: str) -> None:
    def broken(_: Wakeup) -> None:
        raise ValueError("not my day")

    async with opened(url) as store:
        heard: list[Wakeup] = []
        await store.wakeups.subscribe(broken)
        await store.wakeups.subscribe(heard.append)
        await store.jobs.insert([new_job()])
        await wait_until(lambda: bool(heard), 5, "the second listener heard")


def test_a_payload_of_another_version_is_ignored() -> None:
    assert parse("weather:sunny") == []
    assert parse("ready:a,b") == [Wakeup(Topic.READY, "a"), Wakeup(Topic.READY, "b")]
    assert parse("due") == [Wakeup(Topic.DUE)]


# Health --------------------------------------------------------------------------------------


async def test_an_old_transaction_is_pointed_out(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.store.postgres.telemetry.OLD_SNAPSHOT", 0.0)
    async with opened(url) as store, connected(url) as forgotten:
        async with forgotten.transaction():
            await forgotten.fetch("select 1")
            findings = {one.check: one for one in await store.telemetry.check()}
        pid = forgotten.get_server_pid()
        assert f"pid {pid}" in findings["oldest transaction"].saw


async def test_scene_times_come_from_the_servers_clock(url: str) -> None:
    async with opened(url) as store, connected(url) as connection:
        await connection.execute("set time zone 'Pacific/Chatham'")
        scene = await Scene.on(store, ManualClock())
        claimed = await scene.running()
        there = await connection.fetchval("select now()")
        assert abs((there - claimed.claimed_at).total_seconds()) < 60
        assert claimed.claimed_at.utcoffset() is not None
