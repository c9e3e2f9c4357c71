"""What handlers take and no job carries: a pool for the worker, a session for the attempt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast import App, Depends, Shared
from holdfast.testing import Harness

app = App("sqlite://")
log: list[str] = []


@asynccontextmanager
async def pool() -> AsyncIterator[str]:
    log.append("open the pool")
    yield "pool"
    log.append("close the pool")


async def session(of: str = Shared(pool)) -> AsyncIterator[list[str]]:
    written: list[str] = []
    yield written
    log.append(f"commit {written}")


@app.task()
async def sell(item: str, db: list[str] = Depends(session)) -> None:
    db.append(item)


async def test_a_pool_is_opened_once_and_each_attempt_has_a_session() -> None:
    log.clear()
    async with app:
        await sell.enqueue("apple")
        await sell.enqueue("pear")
        async with app.worker({"default": 1}) as worker:
            await worker.drain()
    assert log == ["open the pool", "commit ['apple']", "commit ['pear']", "close the pool"]


async def test_a_test_gives_its_own() -> None:
    log.clear()
    db: list[str] = []
    async with Harness(app, resources={session: db}) as harness:
        await harness.run(sell, "plum")
    assert (db, log) == (["plum"], [])
