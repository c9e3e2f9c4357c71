"""A job is cancelled: a waiting one at once, a running one by telling its handler; and a handler
may cancel its own."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import App, Cancel, JobCancelled

app = App("sqlite://")
begun = asyncio.Event()


@app.task()
async def endless() -> None:
    begun.set()
    await asyncio.Event().wait()


@app.task()
async def ship(order: int) -> None:
    raise Cancel(f"order {order} was withdrawn")


async def test_a_handler_cancels_its_own_job() -> None:
    async with app:
        job = await ship.enqueue(7)
        async with app.worker() as worker:
            await worker.drain()
        with pytest.raises(JobCancelled, match="order 7 was withdrawn"):
            await job.result(timeout=10)
        assert (await job.get()).errors == ()


async def test_a_waiting_job_is_cancelled_at_once() -> None:
    async with app:
        job = await endless.using(delay=60).enqueue()
        await job.cancel()
        with pytest.raises(JobCancelled):
            await job.result(timeout=10)


async def test_a_running_job_is_told_to_stop() -> None:
    async with app:
        job = await endless.enqueue()
        async with app.worker():
            await begun.wait()
            await job.cancel()
            with pytest.raises(JobCancelled):
                await job.result(timeout=10)
