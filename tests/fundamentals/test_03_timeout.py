"""An attempt that takes too long is stopped, and repeated as its policy says."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import App, Context, JobFailed, Retry

app = App("sqlite://")


@app.task(timeout=0.05, retry=Retry(max_attempts=2, base=0.01, jitter=0))
async def slow_at_first(ctx: Context) -> str:
    if ctx.attempt == 1:
        await asyncio.Event().wait()
    return "in time"


@app.task(timeout=0.05, retry=Retry.never())
async def endless() -> None:
    await asyncio.Event().wait()


async def test_an_attempt_that_takes_too_long_is_repeated() -> None:
    async with app:
        job = await slow_at_first.enqueue()
        async with app.worker():
            assert await job.result(timeout=10) == "in time"


async def test_the_last_timeout_fails_the_job() -> None:
    async with app:
        job = await endless.enqueue()
        async with app.worker():
            with pytest.raises(JobFailed, match="timed out"):
                await job.result(timeout=10)
