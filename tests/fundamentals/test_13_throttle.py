"""A handler whose upstream says "slow down" makes the whole queue cool down, and pays nothing."""

from __future__ import annotations

from holdfast import App, JobState, Throttled
from holdfast.testing import Harness

app = App("sqlite://")
upstream = {"busy": True}


@app.task(queue="api")
async def call(number: int) -> int:
    if upstream["busy"]:
        raise Throttled(retry_after=30)
    return number


async def test_a_throttled_queue_rests_for_as_long_as_the_upstream_asks() -> None:
    upstream["busy"] = True
    async with Harness(app) as harness:
        job = await call.enqueue(1)
        await harness.drain()
        waiting = await job.get()
        assert (waiting.state, waiting.attempts) == (JobState.SCHEDULED, 0)
        [queue] = await app.client.queues.all()
        assert queue.cooling_for == 30

        upstream["busy"] = False
        await harness.advance(seconds=31)
        await harness.drain()
        assert await job.result() == 1
