"""What happens after an order was placed. Nothing here imports the app: no import is circular."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from datetime import datetime

from holdfast import Context, Depends, Fail, Retry, Shared, Tasks

shop = Tasks(prefix="shop.", queue="orders", retry=Retry(max_attempts=3, base=1, jitter=0))


class Mailer:
    """Stands for the client of a mail service, with a connection pool inside."""

    async def send(self, to: str, text: str) -> None:
        print(f"to {to}: {text}")

    async def aclose(self) -> None: ...


@asynccontextmanager
async def mailer() -> AsyncIterator[Mailer]:
    """Once a worker: opened before its first job, closed after its last."""
    client = Mailer()
    yield client
    await client.aclose()


def database() -> str:
    """Which file the shop keeps its orders in. The tests name another one."""
    return "shop.db"


def session(path: str = Shared(database)) -> Iterator[sqlite3.Connection]:
    """Once an attempt: what the handler wrote is committed if it returns, else rolled back."""
    with closing(sqlite3.connect(path, check_same_thread=False)) as db, db:
        yield db


@shop.task(timeout=60)
def ship(order: int, db: sqlite3.Connection = Depends(session)) -> str:
    """A plain function, in a thread. Its row and the job of the mail are committed together."""
    row = db.execute("select customer, item from orders where id = ?", (order,)).fetchone()
    if row is None:
        raise Fail(f"there is no order {order}")
    customer, item = row
    db.execute("update orders set shipped = true where id = ?", (order,))
    announce.using(connection=db).enqueue_sync(customer, f"your {item} is on its way")
    return f"order {order}: shipped"


@shop.task(queue="mail", timeout=30)
async def announce(ctx: Context, to: str, text: str, mail: Mailer = Shared(mailer)) -> None:
    """A coroutine, on the worker's event loop. The context is for what the job itself knows."""
    if ctx.attempt > 1:
        ctx.log.info("the mail to %s goes out late", to)
    await mail.send(to, text)


@shop.schedule("0 6 * * *", timezone="Europe/Berlin", plan_as="morning", catch_up="latest")
@shop.task
def count_shipped(morning: datetime, db: sqlite3.Connection = Depends(session)) -> str:
    [(shipped,)] = db.execute("select count(*) from orders where shipped")
    return f"{morning:%Y-%m-%d}: {shipped} shipped"
