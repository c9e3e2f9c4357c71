"""Sweeps while an old snapshot keeps what they remove: each row is walked over a few times, not
once more with every batch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.store.postgres import sweeping
from holdfast.store.postgres.store import PostgresStore
from tests.stores.postgres.shared import connected, opened
from tests.support.waiting import wait_until

ROWS, BATCH = 5_000, 50

JOBS = "insert into holdfast.job (id, task, args, policy)"
SEEDS = {
    "outcome": "insert into holdfast.outcome (job_id, state, queue, priority, task, attempts,"
    " crashes, fence, finished_at, expires_at) select id, 'succeeded', 'default', 0, 'greet', 1, 0,"
    " 1, now(), {moment} from holdfast.job",
    "scheduled": "insert into holdfast.scheduled (job_id, queue, priority, task, due_at)"
    " select id, 'default', 0, 'greet', {moment} from holdfast.job",
    "suspended": "insert into holdfast.suspended (job_id, queue, priority, task, attempts, crashes,"
    " fence, wake_at) select id, 'default', 0, 'greet', 0, 0, 1, {moment} from holdfast.job",
}
MOMENTS = {
    "one after the other": "now() - interval '1 day' + random() * interval '1 hour'",
    "all at one moment": "now() - interval '1 day'",
}


@asynccontextmanager
async def seeded(url: str, table: str, moment: str) -> AsyncIterator[None]:
    """Rows whose time has come, and a transaction that will see them as long as it is open."""
    async with connected(url) as connection:
        await connection.execute(
            f"{JOBS} select gen_random_uuid(), 'greet', '[]', '' from generate_series(1, {ROWS})"
        )
        await connection.execute(SEEDS[table].format(moment=moment))
        await connection.execute(f"vacuum analyze holdfast.{table}")
        async with connection.transaction(isolation="repeatable_read"):
            assert await connection.fetchval(f"select count(*) from holdfast.{table}") == ROWS
            yield


async def entries_read(url: str, index: str) -> int:
    async with connected(url) as connection:
        return int(
            await connection.fetchval(
                "select idx_tup_read from pg_stat_user_indexes"
                " where schemaname = 'holdfast' and indexrelname = $1",
                index,
            )
        )


async def sweep(store: PostgresStore, table: str) -> int:
    swept = 0
    while True:
        if table == "outcome":
            count = await store.jobs.prune(BATCH)
        else:
            count = (await store.jobs.promote_due(BATCH)).count
        swept += count
        if count < BATCH:
            return swept


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(
    ("table", "index"),
    [
        ("outcome", "outcome_expiry"),
        ("scheduled", "scheduled_due"),
        ("suspended", "suspended_wake"),
    ],
)
async def test_a_sweep_under_an_old_snapshot_is_not_quadratic(
    url: str, table: str, index: str, moment: str
) -> None:
    before = await entries_read(url, index)
    async with seeded(url, table, MOMENTS[moment]):
        async with opened(url) as store:
            assert await sweep(store, table) == ROWS
        # A connection tells what it did when it ends, and not before the server gets round to it.

        async def told() -> bool:
            return await entries_read(url, index) >= before + ROWS

        await wait_until(told, 10, "the server has counted what was read")
        assert await entries_read(url, index) - before <= 6 * ROWS


async def test_outcomes_that_somebody_has_locked_are_left_for_the_next_sweep(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They expire at one moment, so that each look finds them all again."""
    monkeypatch.setattr(sweeping, "BATCHES_AHEAD", 1)
    async with opened(url) as store, seeded(url, "outcome", MOMENTS["all at one moment"]):
        async with connected(url) as other, other.transaction():
            await other.fetch("select from holdfast.outcome for update")
            assert await store.jobs.prune(BATCH) == 0
        assert await sweep(store, "outcome") == ROWS
