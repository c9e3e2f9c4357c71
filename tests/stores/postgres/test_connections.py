"""Connections: lost, replaced, named, borrowed through a pooler."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import asyncpg
import psycopg
import pytest

from holdfast.clock import ManualClock
from holdfast.errors import (
    BadOption,
    StoreError,
    StoreRefuses,
    StoreUnavailable,
)
from holdfast.job.ends import Raised, WasSuspended
from holdfast.job.outcome import decide
from holdfast.job.record import Progress
from holdfast.job.state import JobState
from holdfast.job.unique import Unique
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.records import ProgressReport, Want
from holdfast.store.contract.workers import Held
from holdfast.store.postgres.store import PostgresStore
from holdfast.testing.servers import PostgresServer, postgres_server
from tests.conformance.builders import (
    LONG,
    QUEUE,
    RETURNED,
    TASK,
    new_job,
)
from tests.stores.postgres.shared import connected, hired, opened, until_blocked
from tests.support.waiting import wait_until


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


async def test_a_store_is_opened_by_one_statement(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each further one would let a program wait for a server that is far away."""
    asked: list[str] = []

    def note(name: str) -> None:
        real = getattr(asyncpg.Connection, name)

        def noting(connection: Any, query: str, *values: Any, **options: Any) -> Any:
            asked.append(query)
            return real(connection, query, *values, **options)

        monkeypatch.setattr(asyncpg.Connection, name, noting)

    note("fetch")
    note("execute")
    async with opened(url):
        assert len(asked) == 1


@pytest.mark.parametrize("setting", ["nonsense=1", "work_mem=much", "block_size=1"])
async def test_a_setting_the_server_refuses_is_told_with_its_name(url: str, setting: str) -> None:
    with pytest.raises(StoreError, match=f"refuses a setting.*{setting.partition('=')[0]}"):
        async with opened(f"{url}?{setting}"):
            pass


async def test_terminated_connections_are_replaced_without_a_word(url: str) -> None:
    """Terminated while this loop does not run, so that the pool hands out a dead connection."""
    async with opened(f"{url}?pool_size=1") as store:
        worker = await hired(store)
        with psycopg.connect(url, autocommit=True) as executioner:
            for _ in range(3):
                assert behead(executioner)
                [inserted] = await store.jobs.insert([new_job()])
                assert behead(executioner)
                assert (await store.workers.heartbeat(worker, LONG, [])).known
                assert behead(executioner)
                assert [job.id for job in await store.jobs.live([inserted.id])] == [inserted.id]


def behead(executioner: psycopg.Connection) -> bool:
    found = executioner.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
        " where application_name like 'holdfast-%' and datname = current_database()"
    )
    return [row[0] for row in found.fetchall()] == [True]


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
                await until_blocked(url)
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
        assert len(await wipe(store.queues.find())) == 2
        assert await wipe(store.health.check())


class Wiper:
    """Waits for a verb, then discards all that its session remembers."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def __call__(self, verb: Any) -> Any:
        answer = await verb
        pool = self._store._connections._pool
        assert pool is not None
        await pool.use(lambda connection: connection.execute("discard all"))
        return answer


async def as_pgbouncer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers a login as PgBouncer does that is not told to ignore unknown settings."""
    ssl_request = 80877103
    while (length := int.from_bytes(await reader.readexactly(4))) and (
        int.from_bytes((await reader.readexactly(length - 4))[:4]) == ssl_request
    ):
        writer.write(b"N")
    fields = b"SFATAL\0C08P01\0Munsupported startup parameter: statement_timeout\0\0"
    writer.write(b"E" + (len(fields) + 4).to_bytes(4) + fields)
    writer.close()


async def test_a_pooler_that_refuses_our_settings_is_recognised() -> None:
    server = await asyncio.start_server(as_pgbouncer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    store = PostgresStore(f"postgres://ann@127.0.0.1:{port}/shop")
    async with server:
        with pytest.raises(StoreRefuses, match=r"is a pooler.*add \?pooler=true"):
            await store.open()
    await store.close()


async def test_a_database_of_another_isolation_is_refused(postgres: PostgresServer) -> None:
    """A claim locks a bucket and then looks: it has to see what was written before it had the
    lock."""
    url = postgres.new_database()
    await PostgresStore(url).migrate()
    async with connected(url) as connection:
        name = url.rpartition("/")[2]
        setting = "default_transaction_isolation = 'repeatable read'"
        await connection.execute(f"alter database {name} set {setting}")
    with pytest.raises(BadOption, match="read committed"):
        await PostgresStore(url).open()
