"""What claims of jobs with limits read, where plans were made when there was little to read."""

from __future__ import annotations

from holdfast.limits.model import Concurrency
from holdfast.store.postgres.store import PostgresStore
from tests.conformance.builders import TASK, new_job
from tests.conformance.limiting import through
from tests.stores.postgres.shared import connected, hired, opened

LINES, FEW = 2_000, 10
ADMIT = (
    "select count(job_id) from holdfast.admit($1::uuid, $2::bigint, $3::text[], 'default', $4,"
    " $4, $4, null, null, '{}', '{}', 'unheard', clock_timestamp())"
)
READ = (
    "select sum(coalesce(idx_tup_fetch, 0) + seq_tup_read)::int from pg_stat_xact_user_tables"
    " where relname in ('line', 'bucket')"
)


async def enqueue(store: PostgresStore, lines: int) -> None:
    await store.jobs.insert([new_job(**through(f"tenant:{n}")) for n in range(lines)])


async def test_a_claim_reads_little_by_plans_that_were_made_for_one_line(url: str) -> None:
    async with opened(url) as store, connected(url) as connection:
        worker = await hired(store)
        await store.limits.declare({"tenant": Concurrency(9)})
        for number in (1, 2):  # the second one makes plans by the statistics of one row
            await enqueue(store, 1)
            assert await connection.fetchval(ADMIT, worker, number, [TASK], 1) == 1
            await connection.execute("analyze")
        await enqueue(store, LINES)
        assert await connection.fetchval(ADMIT, worker, 3, [TASK], LINES) == LINES
        await enqueue(store, LINES)
        async with connection.transaction():
            assert await connection.fetchval(ADMIT, worker, 4, [TASK], FEW) == FEW  # hears of all
        await enqueue(store, FEW)
        async with connection.transaction():
            before = await connection.fetchval(READ)  # what others read may not be counted yet
            assert await connection.fetchval(ADMIT, worker, 5, [TASK], FEW) == FEW
            assert await connection.fetchval(READ) - before < LINES / 2
