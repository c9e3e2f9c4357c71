"""Workers: what they say of themselves, and how one is told to leave from anywhere."""

from __future__ import annotations

import asyncio

from holdfast import App

app = App("sqlite://")


@app.task(queue="mail")
async def send_email(to: str) -> None: ...


async def test_a_worker_says_its_facts_and_leaves_when_it_is_told_to() -> None:
    async with app:
        working = asyncio.create_task(run())
        job = await send_email.enqueue("a@example.org")
        await job.result(timeout=10)

        [worker] = await app.client.workers.named("clerk")
        assert worker.standing == "alive"
        assert worker.facts.slots is not None
        assert worker.facts.slots["mail"].free == 10

        await app.client.workers.drain("clerk", by="ann@desk")
        await working  # it finished what ran, and `run` has returned
        assert await app.client.workers.all() == []
        [act] = (await app.client.audit.page(verb="workers.drain")).entries
        assert (act.by, act.target) == ("ann@desk", "clerk")


async def run() -> None:
    async with app.worker({"mail": 10}, name="clerk") as worker:
        await worker.run()
