"""A paused queue gives nothing out; what runs goes on."""

from __future__ import annotations

from holdfast import App
from holdfast.testing import Harness

app = App("sqlite://")


@app.task(queue="mail")
async def send(to: str) -> str:
    return f"sent to {to}"


async def test_a_paused_queue_gives_nothing_out_until_it_is_resumed() -> None:
    async with Harness(app):
        await app.client.queues.pause("mail")
        job = await send.enqueue("ann")
        async with app.worker({"mail": 1}) as worker:
            assert await worker.drain() == 0
            await app.client.queues.resume("mail")
            assert await job.result(timeout=10) == "sent to ann"


async def test_a_pause_is_shown() -> None:
    async with Harness(app):
        await app.client.queues.pause("mail")
        [queue] = await app.client.queues.all()
        assert (queue.name, queue.paused) == ("mail", True)
