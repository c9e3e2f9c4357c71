"""A failed attempt is repeated, later each time, up to a number of attempts."""

from __future__ import annotations

import pytest

from holdfast import App, Context, Fail, JobFailed, JobState, Retry
from holdfast.testing import Harness

app = App("sqlite://")


@app.task(retry=Retry(max_attempts=3, base=10, jitter=0))
async def fetch(ctx: Context, works_at: int) -> str:
    if ctx.attempt < works_at:
        raise ConnectionError(f"attempt {ctx.attempt} failed")
    return f"fetched at attempt {ctx.attempt}"


@app.task()
async def parse(text: str) -> None:
    raise Fail(f"{text!r} is not a number")


async def test_a_failed_attempt_is_repeated_after_its_wait() -> None:
    async with Harness(app) as harness:
        job = await fetch.enqueue(2)
        await harness.drain()
        waiting = await job.get()
        assert (waiting.state, waiting.attempts) == (JobState.SCHEDULED, 1)
        await harness.advance(seconds=10)
        await harness.drain()
        assert await job.result() == "fetched at attempt 2"


async def test_the_last_attempt_decides() -> None:
    async with Harness(app) as harness:
        job = await fetch.enqueue(4)
        for wait in (10, 20, 40):
            await harness.drain()
            await harness.advance(seconds=wait)
        with pytest.raises(JobFailed, match="attempt 3 failed"):
            await job.result()
        assert [error.message for error in (await job.get()).errors] == [
            "attempt 1 failed",
            "attempt 2 failed",
            "attempt 3 failed",
        ]


async def test_a_failure_that_no_retry_can_mend_is_final() -> None:
    async with Harness(app) as harness:
        job = await parse.enqueue("x")
        await harness.drain()
        with pytest.raises(JobFailed, match="not a number"):
            await job.result()
