"""A step is recorded: a later attempt gets its result back. A sleep takes no slot."""

from __future__ import annotations

from holdfast import App, Context, Retry
from holdfast.testing import Harness

app = App("sqlite://")
charged: list[int] = []


async def charge(order: int) -> str:
    charged.append(order)
    return f"ch_{order}"


async def send_mail(attempt: int) -> str:
    if attempt == 1:
        raise ConnectionError("no mail today")
    return "sent"


@app.task(retry=Retry(max_attempts=2, base=1, jitter=0))
async def checkout(ctx: Context, order: int) -> str:
    paid = await ctx.step("pay", charge, order)
    await ctx.sleep("cooling off", days=3)
    mail = await ctx.step("mail", send_mail, ctx.attempt)
    return f"{paid}, mail {mail}"


async def test_what_is_recorded_is_not_done_again() -> None:
    async with Harness(app) as harness:
        job = await checkout.enqueue(7)
        await harness.drain()
        assert (await job.get()).state == "suspended"
        await harness.advance(hours=72)
        await harness.drain(raises=False)  # the mail fails
        await harness.advance(seconds=1)
        await harness.drain()
        assert await job.result() == "ch_7, mail sent"
        assert charged == [7]
        steps = await app.client.steps(job.id)
        assert [step.name for step in steps] == ["pay", "cooling off", "mail"]
