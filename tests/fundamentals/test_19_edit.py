"""A waiting job is mended: other arguments, other tags, another time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast import App, BadArguments, Refused
from holdfast.testing import Harness

app = App("sqlite://")


@app.task()
async def send(to: str, copies: int = 1) -> str:
    return f"{copies} to {to}"


async def test_arguments_and_tags_of_a_waiting_job_are_changed() -> None:
    async with Harness(app) as harness:
        job = await send.enqueue("ada@exmaple.org", copies=2)
        await app.client.edit(job.id, args={"to": "ada@example.org"}, tags=["mended"])
        await harness.drain()
        assert await job.result() == "2 to ada@example.org"
        with pytest.raises(Refused, match="only a waiting job can be edited"):
            await app.client.edit(job.id, args={"to": "grace@example.org"})


async def test_arguments_that_do_not_fit_the_task_are_refused() -> None:
    async with Harness(app):
        job = await send.enqueue("ada@example.org")
        for wrong in ({"copies": "many"}, {"cc": "grace@example.org"}):
            with pytest.raises(BadArguments):
                await app.client.edit(job.id, args=wrong)


async def test_a_waiting_job_is_made_due_at_another_time() -> None:
    async with Harness(app) as harness:
        job = await send.enqueue("ada@example.org")
        tomorrow = harness.clock.now + timedelta(days=1)
        await app.client.reschedule(job.id, at=tomorrow)
        assert (await harness.drain()).attempts == 0
        await harness.advance(hours=24)
        assert (await harness.drain()).attempts == 1
