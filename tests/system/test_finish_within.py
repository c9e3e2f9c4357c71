"""`ctx.finish_within(connection)`: a handler's rows and the end of its job, committed together."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import (
    App,
    AttemptLost,
    BadOption,
    Context,
    Event,
    JobFailed,
    JobState,
    NoTransaction,
    PayloadTooLarge,
    Retry,
)
from holdfast.job.ends import DeadlinePassed
from holdfast.job.outcome import decide
from holdfast.testing import Harness
from tests.support.backends import PostgresDatabase
from tests.support.waiting import wait_until


class Shop:
    """An app, and how its handlers connect to the same database on their own."""

    def __init__(self, url: str, connect: Callable[[], Any]) -> None:
        self.app = App(url, max_payload=1024)
        self.connect = connect
        self.events: list[Event] = []
        self.app.events.subscribe(self.events.append)

    def orders(self) -> list[int]:
        with closing(self.connect()) as connection:
            return [n for (n,) in connection.execute("select n from orders order by n").fetchall()]

    async def worked_off(self) -> None:
        async with self.app.worker() as worker:
            await worker.drain()

    def heard(self, name: str) -> int:
        return sum(event.name == name for event in self.events)


@pytest.fixture(scope="module")
def database(request: pytest.FixtureRequest) -> PostgresDatabase:
    return PostgresDatabase(request)


@pytest.fixture(params=["sqlite", "postgres"])
async def shop(
    request: pytest.FixtureRequest, tmp_path: Path, database: PostgresDatabase
) -> AsyncIterator[Shop]:
    if request.param == "postgres":
        url = await database.empty()
        shop = Shop(url, lambda: psycopg.connect(url))
    else:
        path = tmp_path / "shop.db"
        shop = Shop(f"sqlite:///{path}", lambda: sqlite3.connect(path))
    async with shop.app:
        with closing(shop.connect()) as connection:
            connection.execute("drop table if exists orders")
            connection.execute("create table orders (n int)")
            connection.commit()
        yield shop
    with closing(shop.connect()) as connection:
        connection.execute("drop table orders")
        connection.commit()


async def test_rows_and_end_are_committed_together_and_the_return_is_not_kept(shop: Shop) -> None:
    @shop.app.task()
    async def on_the_loop(ctx: Context, n: int) -> str:
        with closing(shop.connect()) as connection:
            connection.execute(f"insert into orders values ({n})")
            await ctx.finish_within(connection, "kept")
            connection.commit()
        return "not kept"

    @shop.app.task()
    def in_a_thread(ctx: Context, n: int) -> str:
        with closing(shop.connect()) as connection:
            connection.execute(f"insert into orders values ({n})")
            ctx.finish_within_sync(connection, "kept")
            connection.commit()
        return "not kept"

    jobs = [await on_the_loop.enqueue(1), await in_a_thread.enqueue(2)]
    await shop.worked_off()
    assert [await job.result() for job in jobs] == ["kept", "kept"]
    assert [(await job.get()).attempts for job in jobs] == [1, 1]
    assert shop.orders() == [1, 2]
    assert shop.heard("job.end_refused") == shop.heard("job.attempt_failed") == 0
    stopped = [event for event in shop.events if event.name == "worker.stopped"]
    assert [event.fields["ended"] for event in stopped] == [2]


@pytest.mark.parametrize("how", ["raises", "returns"])
async def test_a_rolled_back_end_is_no_end_and_the_job_is_tried_again(shop: Shop, how: str) -> None:
    @shop.app.task(retry=Retry.constant(2, base=0))
    def stumble(ctx: Context) -> None:
        with closing(shop.connect()) as connection:
            connection.execute(f"insert into orders values ({ctx.attempt})")
            ctx.finish_within_sync(connection)
            if ctx.attempt == 1:
                connection.rollback()
                if how == "raises":
                    raise RuntimeError("the commit failed")
                return
            connection.commit()

    job = await stumble.enqueue()
    async with shop.app.worker(poll=0.05):
        await job.result(30)
    found = await job.get()
    assert (found.state, found.attempts, shop.orders()) == (JobState.SUCCEEDED, 2, [2])
    kind = "RuntimeError" if how == "raises" else "NotCommitted"
    assert [error.kind for error in found.errors] == [kind]
    assert shop.heard("job.not_committed") == 1


async def test_a_rolled_back_end_of_the_last_attempt_is_an_error_in_the_log(shop: Shop) -> None:
    @shop.app.task(retry=Retry.never())
    def stumble(ctx: Context) -> None:
        with closing(shop.connect()) as connection:
            ctx.finish_within_sync(connection)
            connection.rollback()

    job = await stumble.enqueue()
    await shop.worked_off()
    [told] = [event for event in shop.events if event.name == "job.not_committed"]
    assert (told.level, told.fields["next"]) == (logging.ERROR, JobState.FAILED)
    assert (await job.get()).state is JobState.FAILED


async def test_an_error_after_the_commit_changes_nothing(shop: Shop) -> None:
    @shop.app.task()
    async def trip(ctx: Context) -> None:
        with closing(shop.connect()) as connection:
            connection.execute("insert into orders values (1)")
            await ctx.finish_within(connection)
            connection.commit()
        raise RuntimeError("too late to matter")

    job = await trip.enqueue()
    await shop.worked_off()
    found = await job.get()
    assert (found.state, found.errors, shop.orders()) == (JobState.SUCCEEDED, (), [1])
    assert shop.heard("job.attempt_failed") == shop.heard("job.end_refused") == 0


@pytest.mark.parametrize("how", ["commit", "rollback"])
async def test_a_transaction_left_open_keeps_no_other_job_from_its_end(
    database: PostgresDatabase, how: str
) -> None:
    """On SQLite it does: there is one writer."""
    url = await database.empty()
    shop = Shop(url, lambda: psycopg.connect(url))
    left: list[psycopg.Connection[Any]] = []

    @shop.app.task(retry=Retry.constant(1))
    def forget(ctx: Context) -> str:
        left.append(shop.connect())
        left[0].execute("select 1")
        ctx.finish_within_sync(left[0], "kept")
        return "not kept"

    @shop.app.task(retry=Retry.constant(1))
    async def other(fails: bool) -> int:
        return 1 // (not fails)

    async with shop.app, shop.app.worker():
        job = await forget.enqueue()
        await wait_until(lambda: shop.heard("job.transaction_open") == 1, 30, "told of it")
        assert await (await other.enqueue(False)).result(20) == 1
        with pytest.raises(JobFailed):
            await (await other.enqueue(True)).result(20)
        assert (await job.get()).state is JobState.RUNNING
        getattr(left[0], how)()
        if how == "commit":
            assert await job.result(30) == "kept"
        else:
            with pytest.raises(JobFailed):
                await job.result(30)
            assert [error.kind for error in (await job.get()).errors] == ["NotCommitted"]
        left[0].close()
    assert shop.heard("job.transaction_open") == 1
    assert shop.heard("job.end_refused") == shop.heard("worker.store_unavailable") == 0


async def test_an_attempt_that_was_taken_away_cannot_commit(shop: Shop) -> None:
    """Its job was ended elsewhere meanwhile: the handler hears of it, and rolls back."""
    began, ended = asyncio.Event(), asyncio.Event()
    lost: list[AttemptLost] = []

    @shop.app.task()
    async def zombie(ctx: Context) -> None:
        began.set()
        await ended.wait()
        with closing(shop.connect()) as connection:
            connection.execute("insert into orders values (1)")
            try:
                await ctx.finish_within(connection)
            except AttemptLost as error:
                lost.append(error)
                connection.rollback()
                raise
            connection.commit()

    job = await zombie.enqueue()
    async with shop.app.worker(lease=60) as worker:
        await asyncio.wait_for(began.wait(), 30)
        [live] = await shop.app.store.jobs.live([job.id])
        await shop.app.store.jobs.finish([decide(live, DeadlinePassed())])
        ended.set()
        await worker.drain()
    assert (len(lost), shop.orders()) == (1, [])
    assert (await job.get()).state is JobState.EXPIRED


async def test_what_cannot_be_an_end_is_said_to_the_handler(shop: Shop) -> None:
    said: list[type[Exception]] = []

    @shop.app.task(retry=Retry.constant(1))
    async def wrong(ctx: Context) -> None:
        with closing(shop.connect()) as connection:
            for given, result in ((object(), 1), (connection, "x" * 2000)):
                try:
                    await ctx.finish_within(given, result)
                except Exception as error:  # noqa: BLE001 - which ones is the question
                    said.append(type(error))

    job = await wrong.enqueue()
    await shop.worked_off()
    assert said == [BadOption, PayloadTooLarge]
    assert (await job.get()).state is JobState.SUCCEEDED


async def test_a_connection_in_autocommit_ends_nothing(shop: Shop) -> None:
    @shop.app.task(retry=Retry.constant(1))
    async def alone(ctx: Context) -> None:
        with closing(shop.connect()) as connection:
            if isinstance(connection, sqlite3.Connection):
                connection.isolation_level = None
            else:
                connection.autocommit = True
            with pytest.raises(NoTransaction):
                await ctx.finish_within(connection)

    job = await alone.enqueue()
    await shop.worked_off()
    assert (await job.get()).state is JobState.SUCCEEDED


async def test_a_task_that_is_run_inline_keeps_the_result_of_its_finish() -> None:
    app = App("sqlite://")

    @app.task()
    async def quick(ctx: Context) -> str:
        await ctx.finish_within(object(), "kept")
        return "not kept"

    async with Harness(app) as harness:
        assert (await harness.run(quick)).result == "kept"
