"""Tenants that share one service: no tenant takes all of it, and a 429 stops everybody.

python limits.py
"""

from __future__ import annotations

import asyncio

from holdfast import App, Concurrency, Context, Throttled

app = App("sqlite://")
service = app.limit("service", Concurrency(4))
tenant = app.limit("tenant", Concurrency(2))
running: dict[str, int] = {}
most: dict[str, int] = {}
refusals = iter([429])


@app.task(limits=[service, tenant.by("who")])
async def ask(ctx: Context, who: str, question: int) -> None:
    if next(refusals, 200) == 429:
        raise Throttled(0.2, limit=service)
    running[who] = running.get(who, 0) + 1
    most[who] = max(most.get(who, 0), running[who])
    await asyncio.sleep(0.01)
    running[who] -= 1


async def main() -> None:
    async with app, app.worker(queues={"default": 20}) as worker:
        await ask.enqueue_many(("acme", n) for n in range(20))
        await ask.enqueue_many((who, n) for who in ("bits", "coal") for n in range(3))
        while await app.client.count(state=["ready", "running", "scheduled"]):
            await worker.drain()
            await asyncio.sleep(0.05)
        for who, number in sorted(most.items()):
            print(f"{who}: at most {number} at once")
        for limit, key in ((service, ""), (tenant, "acme"), (tenant, "bits"), (tenant, "coal")):
            bucket = await app.client.limits.get(limit, key)
            print(f"{bucket.name} counts {bucket.in_use}")


asyncio.run(main())
