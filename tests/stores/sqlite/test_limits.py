"""Limits in a file: what a claim costs the others, and what is left in the tables."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from holdfast.clock import ManualClock
from holdfast.job.ids import WorkerId
from holdfast.limits.model import Concurrency, Rate
from holdfast.store.contract.records import Want
from holdfast.store.contract.store import Store
from holdfast.store.open import open_store
from holdfast.store.sqlite.admitting import MOST_PARKED, MOST_READ
from tests.conformance.builders import RETURNED, TASK, Scene, new_job
from tests.conformance.limiting import begun, define, limited, of, through
from tests.conformance.test_limits_total import total


async def claim(store: Store, worker: WorkerId, limit: int) -> list[str]:
    return [*of(await store.jobs.claim(worker, [Want("default", limit)], [TASK]))]


def rows_in(path: Path, table: str, where: str = "true") -> int:
    with closing(sqlite3.connect(path)) as connection:
        [count] = connection.execute(f"select count(*) from {table} where {where}").fetchone()
    return int(count)


async def test_a_claim_lets_no_more_lines_wait_than_it_has_time_for(
    tmp_path: Path, clock: ManualClock
) -> None:
    """Who stands behind them is served by one of the next claims."""
    path = tmp_path / "jobs.db"
    store = open_store(f"sqlite:///{path}", clock=clock)
    await store.open()
    try:
        scene = await Scene.on(store, clock)
        await limited(scene, tenant=9, all=1)
        lines = 2 * (MOST_PARKED + MOST_READ)
        await store.jobs.insert([new_job(**through(f"tenant:{n}", "all:")) for n in range(lines)])
        behind = await scene.enqueue(**through("tenant:free"))
        assert len(await claim(store, scene.worker, 5)) == 1
        assert MOST_PARKED <= rows_in(path, "holdfast_line", "parked_at is not null") < lines
        served = [await claim(store, scene.worker, 5) for _ in range(4)]
        assert [behind] in served
    finally:
        await store.close()


async def test_nothing_is_left_of_buckets_that_hold_nothing(
    tmp_path: Path, clock: ManualClock
) -> None:
    path = tmp_path / "jobs.db"
    store = open_store(f"sqlite:///{path}", clock=clock)
    await store.open()
    try:
        scene = await Scene.on(store, clock)
        await limited(scene, tenant=9)
        await define(scene, github=Rate(9, per=60))
        await total(scene, 20)
        for job in await begun(scene, 5, "tenant:a", "github:"):
            await scene.finish(job, RETURNED)
        assert rows_in(path, "holdfast_bucket") == 1
        assert [one.name for one in await store.limits.buckets(None, 9)] == ["github:"]
        assert Concurrency(20) == (await store.limits.get(["queue:default"]))[0].settings
    finally:
        await store.close()
