"""A unique key that somebody's open transaction holds: it is waited for, but not for ever, and
nobody else waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import asyncpg
import psycopg
import pytest

from holdfast.client.client import Client
from holdfast.errors import KeyHeld, Refused
from holdfast.job.ids import JobId
from holdfast.job.record import Inserted
from holdfast.job.state import JobState
from holdfast.job.unique import Unique
from holdfast.schedule.ledger import LedgerWriter
from holdfast.schedule.model import Decision, Plan
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.joining import JobsWithin
from holdfast.store.postgres.store import PostgresStore
from tests.conformance.builders import insert_within, insert_within_sync, new_job
from tests.conformance.planning import definition
from tests.stores.postgres.shared import connected, opened, until_blocked

PATIENCE = 10.0
"""Less than the timeout of a statement."""


@asynccontextmanager
async def holding(url: str, store: PostgresStore, *keys: str) -> AsyncIterator[list[Inserted]]:
    """Somebody's open transaction, which has enqueued jobs with these keys."""
    async with connected(url) as connection, connection.transaction():
        jobs = [new_job(unique=Unique(key)) for key in keys]
        yield await insert_within(store.jobs, connection, jobs)


@asynccontextmanager
async def client_of(store: PostgresStore) -> AsyncIterator[Client]:
    client = Client(store)
    yield client
    await client.aclose()


async def test_one_held_unique_key_stalls_no_other_enqueue(url: str) -> None:
    async with opened(url) as store, client_of(store) as client:
        async with holding(url, store, "held") as [holder]:
            waiting = asyncio.create_task(client.insert(new_job(unique=Unique("held"))))
            await until_blocked(url)
            free = [new_job(), *(new_job(unique=Unique(f"free {n}")) for n in range(20)), new_job()]
            async with asyncio.timeout(3):
                answers = await asyncio.gather(*map(client.insert, free))
            assert [one.how for one in answers] == ["created"] * len(free)
            assert not waiting.done()
        answer = await waiting
        assert (answer.how, answer.id) == ("existing", holder.id)


async def test_callers_of_a_held_key_and_of_free_ones_share_a_batch_unharmed(url: str) -> None:
    async with opened(f"{url}?key_timeout=0.3") as store, client_of(store) as client:
        async with holding(url, store, "a", "m", "z"):
            keys = ["b", "m", "c", "z", "d", "m"]
            answers = await asyncio.gather(
                *(client.insert(new_job(unique=Unique(key))) for key in keys),
                return_exceptions=True,
            )
        held = [one.keys if isinstance(one, KeyHeld) else () for one in answers]
        assert held == [(), ("m",), (), ("z",), (), ("m",)]
        assert await store.jobs.count(JobFilter()) == {JobState.READY: 6}


async def test_a_key_held_too_long_is_answered_with_its_name(url: str) -> None:
    async with opened(f"{url}?key_timeout=0.3") as store, client_of(store) as client:
        async with holding(url, store, "report:7"):
            many = [new_job(unique=Unique(f"report:{n}")) for n in range(12)]
            with pytest.raises(KeyHeld, match="'report:7' is held by a transaction") as failure:
                await client.insert_many(many)
        assert failure.value.keys == ("report:7",)
        assert await store.jobs.count(JobFilter()) == {JobState.READY: 1}, "the holder's own"


async def test_a_holder_that_takes_over_an_ended_jobs_key_holds_it_too(url: str) -> None:
    async with opened(f"{url}?key_timeout=0.2") as store, client_of(store) as client:
        await store.jobs.insert([new_job(unique=Unique("k", frozenset({JobState.RUNNING})))])
        async with holding(url, store, "k") as [holder]:
            assert holder.how == "created"
            with pytest.raises(KeyHeld, match="'k'"):
                await client.insert(new_job(unique=Unique("k")))


async def test_a_callers_own_transaction_waits_for_a_key_as_long_and_keeps_its_settings(
    url: str,
) -> None:
    async with opened(f"{url}?key_timeout=0.2") as store, connected(url) as connection:
        async with holding(url, store, "k"):
            with pytest.raises(KeyHeld, match="'k'"):
                async with connection.transaction():
                    await insert_within(store.jobs, connection, [new_job(unique=Unique("k"))])
            with psycopg.connect(url) as blocking, pytest.raises(KeyHeld, match="'k'"):
                insert_within_sync(store.jobs, blocking, [new_job(unique=Unique("k"))])
        for own in ("0", "7s"):
            async with connection.transaction():
                await connection.execute(f"set local lock_timeout = '{own}'")
                await insert_within(store.jobs, connection, [new_job(unique=Unique("k"))])
                assert await connection.fetchval("show lock_timeout") == own


async def test_a_callers_own_lock_timeout_is_the_one_that_counts(url: str) -> None:
    async with opened(url) as store, connected(url) as connection, holding(url, store, "k"):
        await connection.execute("set lock_timeout = '50ms'")
        with pytest.raises(KeyHeld) as failure:
            async with connection.transaction():
                await insert_within(store.jobs, connection, [new_job(unique=Unique("k"))])
        assert isinstance(failure.value.__cause__, asyncpg.LockNotAvailableError)


async def test_a_requeue_of_a_held_key_is_refused_and_keeps_no_other_job(url: str) -> None:
    """The open transaction took the key of an ended job. Its job stays as it is."""
    async with opened(url) as store, client_of(store) as client:
        ended = [new_job(unique=Unique("k")), new_job(unique=Unique("free")), new_job()]
        await store.jobs.insert(ended)
        for job in ended:
            await client.cancel(job.id)
        async with holding(url, store, "k"), asyncio.timeout(PATIENCE):
            ids = [job.id for job in ended]
            assert await store.jobs.requeue(ids) == ids[1:]
            with pytest.raises(Refused, match="still open, holds its unique key"):
                await client.requeue(ids[0])
        assert await client.count(id=ids[0]) == {JobState.CANCELLED: 1}


async def test_a_requeue_within_a_transaction_names_the_held_key(url: str) -> None:
    async with opened(f"{url}?key_timeout=0.2") as store, client_of(store) as client:
        job = new_job(unique=Unique("k"))
        await store.jobs.insert([job])
        await client.cancel(job.id)

        async def requeue(jobs: JobsWithin) -> list[JobId]:
            return await jobs.requeue([job.id])

        async with connected(url) as connection, connection.transaction():
            assert await store.jobs.within(connection, requeue) == [job.id]
            own = await connection.fetchval("show lock_timeout")
        assert own == "0"
        await client.cancel(job.id)
        async with holding(url, store, "k"), connected(url) as connection:
            with pytest.raises(KeyHeld, match="'k'"):
                async with connection.transaction():
                    await store.jobs.within(connection, requeue)


async def test_a_plan_whose_key_is_held_is_the_only_one_that_waits(url: str) -> None:
    async with opened(url) as store:
        keys, at = ("held", "free"), datetime(2028, 2, 28, tzinfo=UTC)
        plans = [Plan(key, "", at, Decision.FIRED, job=new_job(unique=Unique(key))) for key in keys]
        await store.schedules.declare({key: definition() for key in keys})
        async with holding(url, store, "held"), asyncio.timeout(PATIENCE):
            with pytest.raises(KeyHeld, match="'held'"):
                await store.schedules.record(plans)
            writer = LedgerWriter(store)
            assert await writer.write(plans) == []
            assert (writer.written, writer.failed, writer.error) == (1, True, None)
            [row] = await store.schedules.history(plans[0].schedule)
            assert row.decision is Decision.FAILED
            assert "'held' is held by a transaction" in str(row.reason)
        assert await store.schedules.record(plans[:1]) == [True], "later it starts"
