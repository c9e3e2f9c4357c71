"""A trip that is booked step by step, and undone when the last step fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

from holdfast import App, Context, Fail, JobFailed

DATABASE = Path("saga.db")
app = App(f"sqlite:///{DATABASE}")


@app.task()
async def price_of(flight: int) -> int:
    return 100 + flight


@app.task()
async def release_seat(seat: str) -> None:
    print(f"released: {seat}")


@app.task()
async def refund(cents: int) -> None:
    print(f"refunded: {cents}")


async def reserve_seat(flight: int) -> str:
    print(f"reserved: a seat of flight {flight}")
    return f"a seat of flight {flight}"


async def charge(cents: int) -> int:
    print(f"charged: {cents}")
    return cents


@app.task()
async def book(ctx: Context, flight: int) -> None:
    await ctx.step.using(undo=release_seat)("seat", reserve_seat, flight)
    price = await ctx.call(price_of, flight)
    await ctx.step.using(undo=refund)("pay", charge, price)
    raise Fail("the flight was cancelled")


async def main() -> None:
    async with app:
        job = await book.enqueue(7)
        async with app.worker({"default": 4}):
            try:
                await job.result(timeout=30)
            except JobFailed as error:
                state = await undone(job.id)
                print(f"failed: {error.reason}, and undone: {state}")


async def undone(job_id: str) -> str:
    """Wait until a worker has begun to undo the job, and then until all of it is undone."""
    while True:
        for flow in await app.client.flows.called_by(job_id):
            if flow.name == "undo":
                return (await app.client.flows.wait(flow.id, timeout=30)).state
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    for leftover in Path().glob(f"{DATABASE}*"):
        leftover.unlink()
    asyncio.run(main())
