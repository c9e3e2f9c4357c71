"""Placing orders: what a web server does. The job of an order exists exactly if the order does.

python -m shop.orders
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

from shop.app import app, request_id
from shop.tasks import database, ship


class OutOfStock(Exception): ...


def connect(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path)
    db.execute(
        "create table if not exists orders"
        " (id integer primary key, customer text, item text, shipped boolean default false)"
    )
    return db


def place_order(db: sqlite3.Connection, customer: str, item: str) -> int:
    """In a view of Flask or Django, without an event loop."""
    with db, app.within(db):  # `with db` commits, or rolls back what is inside
        order = insert(db, customer, item)
        ship.enqueue_sync(order)
        check_stock(item)
    return order


async def place_order_async(db: sqlite3.Connection, customer: str, item: str) -> int:
    """In an endpoint of FastAPI or Starlette, where the app is open."""
    with db:
        async with app.within(db):
            order = insert(db, customer, item)
            await ship.enqueue(order)
            check_stock(item)
    return order


def insert(db: sqlite3.Connection, customer: str, item: str) -> int:
    cursor = db.execute("insert into orders (customer, item) values (?, ?)", (customer, item))
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def check_stock(item: str) -> None:
    if item == "unicorn":
        raise OutOfStock(item)


async def serve(db: sqlite3.Connection) -> None:
    """What an asynchronous web server would do."""
    async with app:
        await place_order_async(db, "bob@example.org", "lamp")


def main() -> None:
    """A few requests, and then what `holdfast worker shop.app:app` would do."""
    app.sync.count()  # opens the store, which makes its tables in a new file
    with closing(connect(database())) as db:
        request_id.set("r1")
        place_order(db, "ann@example.org", "chair")
        try:
            place_order(db, "ann@example.org", "unicorn")
        except OutOfStock as error:
            print(f"out of stock: {error}")
        asyncio.run(serve(db))
        print(f"jobs: {sum(app.sync.count().values())}")
        app.run_worker(burst=True)
        [(shipped,)] = db.execute("select count(*) from orders where shipped")
        print(f"shipped: {shipped}")


if __name__ == "__main__":
    main()
