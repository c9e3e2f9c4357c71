"""An order and its job in one SQLite transaction: both are there, or neither is."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

from holdfast import App

app = App("sqlite:///shop.db")


@app.task(queue="shipping")
async def ship(order: int) -> str:
    return f"order {order} is on its way"


async def place_order(shop: sqlite3.Connection, order: int, *, in_stock: bool) -> None:
    """The worker hears of the job when the transaction commits, not before."""
    with shop:
        shop.execute("insert into orders values (?)", (order,))
        await ship.using(connection=shop, unique=f"ship:{order}").enqueue(order)
        if not in_stock:
            raise LookupError(f"order {order}: out of stock")


async def main() -> None:
    async with app:
        with closing(sqlite3.connect("shop.db")) as shop:
            shop.execute("create table if not exists orders (id integer primary key)")
            await place_order(shop, 1, in_stock=True)
            try:
                await place_order(shop, 2, in_stock=False)
            except LookupError as error:
                print(error)
            [(orders,)] = shop.execute("select count(*) from orders")
        print(f"orders: {orders}, jobs: {sum((await app.client.count()).values())}")
        async with app.worker({"shipping": 2}) as worker:
            await worker.drain()
        [job] = (await app.client.page(queue="shipping")).jobs
        print(job.result)


if __name__ == "__main__":
    asyncio.run(main())
