"""Retention on Postgres: pruned jobs make room for new ones."""

from __future__ import annotations

import asyncpg

from holdfast.clock import ManualClock
from holdfast.job.ends import Returned
from holdfast.job.outcome import decide
from holdfast.store.contract.filters import JobFilter
from holdfast.store.postgres.store import PostgresStore
from holdfast.testing.servers import PostgresServer
from tests.conformance.builders import Scene
from tests.stores.postgres.shared import connected, opened

JOBS = 4_000
BATCH = 1_000
DAY = 86_400.0


async def test_history_that_comes_and_goes_does_not_bloat(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    await PostgresStore(url).migrate()
    clock = ManualClock()
    async with opened(url, clock=clock) as store, connected(url) as connection:
        scene = await Scene.on(store, clock)
        sizes = [await generation(scene, connection) for _ in range(6)]
        assert await store.jobs.count(JobFilter()) == {}
    assert sizes[-1] <= 1.2 * sizes[1], f"bytes after each generation: {sizes}"


async def generation(scene: Scene, connection: asyncpg.Connection[asyncpg.Record]) -> int:
    """Jobs are enqueued, end, are kept for their time and pruned in bounded batches; then the
    server vacuums, as autovacuum does by itself on a server that lives longer than a test."""
    for _ in range(JOBS // BATCH):
        await scene.enqueue_many(BATCH)
    while claimed := await scene.claim(BATCH):
        await scene.store.jobs.finish([decide(job, Returned('"done"')) for job in claimed])
    scene.clock.advance(8 * DAY)
    pruned = []
    while (number := await scene.store.jobs.prune(BATCH)) > 0:
        pruned.append(number)
    assert sum(pruned) == JOBS
    assert max(pruned) <= BATCH
    await connection.execute("vacuum")
    size: int = await connection.fetchval(
        "select sum(pg_total_relation_size(oid))::bigint from pg_class"
        " where relnamespace = 'holdfast'::regnamespace and relkind = 'r'"
    )
    return size
