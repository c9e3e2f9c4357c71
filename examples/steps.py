"""An order that pays, waits and ships: each thing is done once, whatever happens in between.

The first attempt fails after the payment, as if its process had died; the second goes on there.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from holdfast import App, Context, Retry

DATABASE = Path("steps.db")
app = App(f"sqlite:///{DATABASE}")


async def charge(order: int) -> str:
    print(f"order {order} is charged")
    return f"ch_{order}"


async def ship(order: int, payment: str) -> str:
    print(f"order {order} is shipped, paid by {payment}")
    return f"parcel {order}"


@app.task(retry=Retry(max_attempts=3, base=0.1, jitter=0))
async def fulfil(ctx: Context, order: int) -> str:
    payment = await ctx.step("pay", charge, order)
    if ctx.attempt == 1:
        raise ConnectionError("the warehouse does not answer")
    await ctx.sleep("cooling off", seconds=0.2)
    return await ctx.step("ship", ship, order, payment)


async def main() -> None:
    async with app:
        job = await fulfil.enqueue(7)
        async with app.worker({"default": 4}):
            print(await job.result(timeout=30))
        for step in await app.client.steps(job.id):
            print(f"recorded: {step.name}")


if __name__ == "__main__":
    for leftover in Path().glob(f"{DATABASE}*"):
        leftover.unlink()
    asyncio.run(main())
