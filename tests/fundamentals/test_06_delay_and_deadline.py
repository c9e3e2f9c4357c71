"""A job runs not before its delay is over, and not at all after its deadline; or a deadline bounds
only its start."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast import App, Context, JobExpired
from holdfast.testing import Harness

app = App("sqlite://")


@app.task()
async def remind(text: str) -> str:
    return text


@app.task(retry=2)
async def call_back(ctx: Context) -> str:
    if ctx.attempt == 1:
        raise ConnectionError("the line was busy")
    return "called"


async def test_a_delayed_job_waits() -> None:
    async with Harness(app) as harness:
        job = await remind.using(delay=timedelta(hours=1)).enqueue("tea")
        assert (await harness.drain()).attempts == 0
        await harness.advance(hours=1)
        await harness.drain()
        assert await job.result() == "tea"


async def test_a_job_can_be_due_at_a_time_of_the_calendar() -> None:
    async with Harness(app) as harness:
        at = harness.clock.now + timedelta(minutes=30)
        job = await remind.using(run_at=at).enqueue("tea")
        await harness.advance(minutes=30)
        await harness.drain()
        assert await job.result() == "tea"


async def test_a_job_that_nobody_ran_before_its_deadline_is_expired() -> None:
    async with Harness(app) as harness:
        job = await remind.using(deadline=60).enqueue("tea")
        await harness.advance(seconds=61)
        with pytest.raises(JobExpired):
            await job.result()


async def test_a_job_may_have_to_start_by_a_time_and_then_take_as_long_as_it_wants() -> None:
    async with Harness(app) as harness:
        begun = await call_back.using(start_by=60).enqueue()
        await harness.drain(raises=False)
        late = await call_back.using(start_by=60).enqueue()
        await harness.advance(seconds=61)
        await harness.drain()
        assert await begun.result() == "called"
        with pytest.raises(JobExpired, match="not started in time"):
            await late.result()
