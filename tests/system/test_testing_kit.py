"""The tools that users test their own tasks with."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast import App, BadArguments, BadResult, Context, Fail, JobState, Retry
from holdfast.testing import Harness
from holdfast.testing.servers import PostgresServer
from tests.support.leaks import nothing_leaks

app = App("postgres://nobody.invalid/nothing")  # a harness never touches it


@app.task(queue="mail", retry=Retry(max_attempts=3, base=60, jitter=0))
async def send(ctx: Context, to: str) -> str:
    await ctx.progress(0.5, "half")
    if to == "down" and ctx.attempt == 1:
        raise ConnectionError("no server")
    return f"to {to}"


@app.task()
async def sign_up(to: str) -> None:
    await send.enqueue(to)


@app.task()
def tuples() -> tuple[int, str]:
    return (1, "a")


@app.task()
async def hopeless() -> None:
    raise Fail("never")


@app.task()
async def unspeakable() -> object:
    return object()


async def test_draining_runs_what_jobs_enqueue_too() -> None:
    async with nothing_leaks(), Harness(app) as harness:
        await sign_up.enqueue("a")
        assert (await harness.drain()).attempts == 2
        assert await harness.app.client.count() == {JobState.SUCCEEDED: 2}


async def test_time_moves_only_when_told() -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)
    async with Harness(app, start=start) as harness:
        job = await send.enqueue("down")
        await harness.drain(raises=False)
        assert (await job.get()).state is JobState.SCHEDULED
        assert (await harness.drain()).attempts == 0
        await harness.advance(minutes=1)
        assert (await job.get()).state is JobState.READY
        await harness.drain()
        assert await job.result() == "to down"
        assert (await harness.app.store.now()) == harness.clock.now


async def test_deadlines_pass_when_the_clock_does() -> None:
    async with Harness(app) as harness:
        job = await send.using(deadline=30, delay=60).enqueue("a")
        await harness.advance(31)
        assert (await job.get()).state is JobState.EXPIRED


async def test_what_is_enqueued_can_be_asserted_by_some_of_its_arguments() -> None:
    async with Harness(app) as harness:
        await send.enqueue("a")
        assert (await harness.assert_enqueued(send, to="a")).queue == "mail"
        await harness.assert_not_enqueued(send, to="b")
        await harness.assert_not_enqueued(sign_up)
        with pytest.raises(AssertionError, match=r"are:\n  ready: {\"to\":\"a\"} queue='mail'"):
            await harness.assert_enqueued(send, to="b")
        with pytest.raises(AssertionError, match=r"1 enqueued: .*\.send\(\)"):
            await harness.assert_not_enqueued(send)


async def test_one_call_runs_on_the_spot_with_real_encoding() -> None:
    async with Harness(app) as harness:
        ran = await harness.run(send, "a")
        assert ran.result == "to a"
        assert [(report.fraction, report.message) for report in ran.progress] == [(0.5, "half")]
        assert (await harness.run(tuples)).result == (1, "a")
        with pytest.raises(Fail):
            await harness.run(hopeless)
        with pytest.raises(BadArguments):
            await harness.run(send, 5)  # type: ignore[arg-type]
        with pytest.raises(BadResult):
            await harness.run(unspeakable)
        assert await harness.enqueued() == []


async def test_each_harness_starts_empty() -> None:
    for _ in range(2):
        async with Harness(app) as harness:
            assert await harness.enqueued() == []
            await send.enqueue("a")


async def test_a_database_in_a_file_lets_code_join_its_transaction(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as db:
        async with Harness(app, url=f"sqlite:///{tmp_path}/shop.db") as harness:
            async with app.within(db):
                await send.using(delay=3600).enqueue("a")
            await harness.assert_not_enqueued(send)
            db.commit()
            await harness.assert_enqueued(send, to="a")
            await harness.advance(hours=1)
            assert (await harness.drain()).attempts == 1


async def test_a_server_has_the_clock_of_the_test_too(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_AUTO_MIGRATE", "1")
    async with Harness(app, url=postgres.new_database()) as harness:
        await send.using(delay=3600).enqueue("a")
        assert (await harness.drain()).attempts == 0
        await harness.advance(hours=1)
        assert (await harness.drain()).attempts == 1


async def test_the_plugin_offers_a_harness(harness_for: Callable[[App], Harness]) -> None:
    async with harness_for(app) as harness:
        await send.enqueue("a")
        assert (await harness.drain()).attempts == 1
