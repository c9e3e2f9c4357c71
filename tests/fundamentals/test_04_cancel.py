"""A job is cancelled: a waiting one at once, a running one by telling its handler."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import App, JobCancelled

app = App("sqlite://")
begun = asyncio.Event()


@app.task()
async def endless() -> None:
    begun.set()
    await asyncio.Event().wait()


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
