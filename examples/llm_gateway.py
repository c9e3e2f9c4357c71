"""A gateway to a language model: tenants with budgets of tokens, a rate of calls, and 429s.

python llm_gateway.py
"""

from __future__ import annotations

import asyncio

from holdfast import App, Budget, Concurrency, Context, Rate, Throttled

app = App("sqlite://")
calls = app.limit("calls", Rate(200, per=1, burst=50))  # what the model's owner allows
tenant = app.limit("tenant", Concurrency(2))  # no tenant takes all connections
tokens = app.limit("tokens", Budget(10_000, soft=8_000, every="day", timezone="Europe/Berlin"))
busy = iter([False, True])


@app.task(queue="ai", limits=[calls, tenant.by("org"), tokens.by("{org}/{team}", cost="most")])
async def ask(ctx: Context, org: str, team: str, prompt: str, most: int) -> str:
    if next(busy, False):
        raise Throttled(0.2, limit=calls)  # the model said 429: every worker waits
    await asyncio.sleep(0.01)
    await ctx.spent(tokens, 500)  # what the answer has cost; the rest of `most` is refunded
    return prompt.upper()


async def main() -> None:
    async with app, app.worker() as worker:
        first = await ask.enqueue("acme", "ml", "hello", 2_000)
        await ask.enqueue_many(("acme", "web", f"prompt {n}", 2_000) for n in range(6))
        await ask.enqueue_many(("bits", "lab", f"prompt {n}", 4_000) for n in range(4))
        print(await first.result(timeout=10))
        while await app.client.count(state=["ready", "running", "scheduled"]):
            await worker.drain()
            await asyncio.sleep(0.02)
        for key in ("acme", "acme/ml", "acme/web", "bits"):
            print(f"{key} has spent {(await app.client.limits.get(tokens, key)).spent:,} tokens")

        await app.client.limits.set(tokens, key="acme", hard=4_000)  # a whole company, live
        late = await ask.enqueue("acme", "ml", "one more", 1_000)
        await worker.drain()
        [reason] = (await app.client.explain(late.id)).reasons
        print(f"{reason.code}: {reason.fact.partition(';')[0]}")
        await app.client.limits.top_up(tokens, 5_000, key="acme")
        print(await late.result(timeout=10))


asyncio.run(main())
