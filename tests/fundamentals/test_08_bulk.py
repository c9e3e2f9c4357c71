"""Many jobs in one call, and verbs that act on all jobs that a filter names."""

from __future__ import annotations

from holdfast import App, JobState
from holdfast.testing import Harness

app = App("sqlite://")


@app.task(queue="mail", tags=["newsletter"])
async def send(number: int) -> int:
    return number


async def test_many_calls_are_enqueued_in_one() -> None:
    async with Harness(app) as harness:
        jobs = await send.enqueue_many((number,) for number in range(1_000))
        assert len(jobs) == 1_000
        assert (await harness.drain()).attempts == 1_000
        assert await jobs[-1].result() == 999


async def test_all_jobs_of_a_filter_are_cancelled_at_once() -> None:
    async with Harness(app):
        await send.enqueue_many([{"number": number} for number in range(10)])
        tried = await app.client.cancel_all(tag="newsletter", dry_run=True)
        assert tried.matched == 10
        assert await app.client.count() == {JobState.READY: 10}
        await app.client.cancel_all(tag="newsletter")
        assert await app.client.count() == {JobState.CANCELLED: 10}
