"""Stats: how many jobs there were, how they ended, and how long they waited and ran."""

from __future__ import annotations

import asyncio

from holdfast import App, Retry

app = App("sqlite://")


@app.task(queue="mail", retry=Retry.never())
async def send_email(to: str) -> None:
    await asyncio.sleep(0.02)
    if "@" not in to:
        raise ValueError(f"{to} is no address")


async def test_an_hour_is_told_in_counts_and_percentiles() -> None:
    async with app:
        for to in ("a@example.org", "b@example.org", "nobody"):
            await send_email.enqueue(to)
        async with app.worker() as worker:
            await worker.drain()
        stats = await app.client.telemetry.stats(since=3600, queue="mail")
    every = stats.every
    assert (every.enqueued, every.ended, every.failed) == (3, 3, 1)
    assert every.run.p50 is not None
    assert every.run.p50 > 0.015, "half of the attempts ran no longer than this"
    [task] = stats.tasks
    assert (task.task, task.ended) == (send_email.name, 3)
