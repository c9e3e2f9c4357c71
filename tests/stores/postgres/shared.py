"""Ways into a Postgres store that its own tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from holdfast.job.ids import JobId, WorkerId
from holdfast.store.contract.records import Want
from holdfast.store.postgres.store import PostgresStore
from tests.conformance.builders import (
    LONG,
    QUEUE,
    TASK,
    new_worker,
)
from tests.support.waiting import wait_until


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


async def until_blocked(url: str, count: int = 1) -> None:
    """Looked at from outside: within a transaction the server's activity seems to stand still."""
    waiting = (
        "select count(*) from pg_stat_activity"
        " where wait_event_type = 'Lock' and datname = current_database()"
    )
    async with connected(url) as watch:

        async def blocked() -> bool:
            return int(await watch.fetchval(waiting)) >= count

        await wait_until(blocked, 10, f"{count} statements wait for a lock")


async def terminate(url: str, name: str = "holdfast-%") -> int:
    async with connected(url) as connection:
        rows = await connection.fetch(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where application_name like $1 and datname = current_database()",
            name,
        )
    return len(rows)
