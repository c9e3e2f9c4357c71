"""A job runs not before its delay is over, and not at all after its deadline."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast import App, JobExpired
from holdfast.testing import Harness

app = App("sqlite://")


@app.task()
async def remind(text: str) -> str:
    return text


async def test_a_delayed_job_waits() -> None:
    async with Harness(app) as harness:
        job = await remind.using(delay=timedelta(hours=1)).enqueue("tea")
        assert await harness.drain() == 0
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
