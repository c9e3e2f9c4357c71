"""A job that is enqueued on your own connection is committed or rolled back with your rows."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from holdfast import App, JobState

app = App("sqlite://")


@app.task()
async def ship(order: int) -> int:
    return order


async def test_a_job_is_rolled_back_with_the_callers_rows(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    with app.using_store(f"sqlite:///{file}"):
        async with app:
            with closing(sqlite3.connect(file)) as shop:
                shop.execute("create table orders (id integer)")
                shop.execute("insert into orders values (7)")
                await ship.using(connection=shop).enqueue(7)
                shop.rollback()
                assert await app.client.count() == {}

                shop.execute("insert into orders values (8)")
                await ship.using(connection=shop).enqueue(8)
                shop.commit()
                assert await app.client.count() == {JobState.READY: 1}
