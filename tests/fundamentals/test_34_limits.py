"""Limits: how many at once, how fast, how much; turns between tenants; who can do it."""

from __future__ import annotations

from holdfast import App, Budget, Concurrency, Context, Rate
from holdfast.testing import Harness

app = App("sqlite://")
tenant = app.limit("tenant", Concurrency(2))
calls = app.limit("calls", Rate(3, per=60))
tokens = app.limit("tokens", Budget(100, every="day"))
asked: list[str] = []


@app.task(limits=[calls, tenant.by("who"), tokens.by("who", cost="most")], fair="who")
async def ask(ctx: Context, who: str, most: int) -> None:
    asked.append(who)
    await ctx.spent(tokens, most // 2)


async def test_a_job_begins_when_all_its_limits_have_room() -> None:
    asked.clear()
    async with Harness(app) as harness:
        await ask.enqueue_many([("acme", 20)] * 3)
        waits = await ask.enqueue("bits", 20)
        await harness.drain()
        assert len(asked) == 3, "three a minute"
        assert (await app.client.limits.get(calls)).room == 0
        assert (await waits.get()).state == ("succeeded" if "bits" in asked else "ready")
        await harness.advance(seconds=61)
        await harness.drain()
        assert sorted(asked) == ["acme", "acme", "acme", "bits"]
        assert (await app.client.limits.get(tokens, "acme")).spent == 30, "what was used"


async def test_an_operator_changes_a_limit_while_it_is_in_use() -> None:
    async with Harness(app) as harness:
        await app.client.limits.set(tenant, key="acme", most=0)
        job = await ask.enqueue("acme", 10)
        await harness.drain()
        [reason, *_] = (await app.client.explain(job.id)).reasons
        assert (reason.code, reason.who) == ("limit-full", "an operator")
        await app.client.limits.inherit(tenant, "acme")
        await harness.drain()
        assert (await job.get()).state == "succeeded"
