"""One call as a chosen attempt: its number, its checkpoint, its timeout and its thread."""

from __future__ import annotations

import asyncio
import threading
import time
from contextvars import ContextVar

import pytest

from holdfast import App, BadOption, Context, JobState
from holdfast.testing import Harness, SyncHarness

app = App("postgres://nobody.invalid/nothing")  # a harness never touches it
TENANT: ContextVar[str] = ContextVar("tenant", default="none")


@app.task(timeout=0.05)
async def sleeps() -> None:
    await asyncio.sleep(60)


@app.task(timeout=0.05)
def loops(ctx: Context) -> None:
    while not ctx.cancelled:
        time.sleep(0.001)


@app.task(timeout=0.05)
def stops(ctx: Context, *, loudly: bool) -> str:
    while not ctx.cancelled:
        time.sleep(0.001)
    if loudly:
        ctx.check_cancelled()
    return "the loop has not looked at its clock yet"


@app.task(retry=5)
async def copy(ctx: Context) -> tuple[int, int | None, object]:
    return ctx.attempt, ctx.max_attempts, ctx.checkpoint


@app.task()
def where(to: str) -> tuple[str, str]:
    sent.using(queue="mail").enqueue_sync(to)
    return threading.current_thread().name, TENANT.get()


@app.task()
def sent(to: str) -> None: ...


async def test_the_attempt_and_its_checkpoint_can_be_chosen() -> None:
    async with Harness(app) as harness:
        assert (await harness.run(copy)).result == (1, 5, None)
        third = harness.attempt(3, checkpoint={"row": 10})
        assert (await third.run(copy)).result == (3, 5, {"row": 10})
        with pytest.raises(BadOption, match="attempt"):
            harness.attempt(0)


async def test_the_timeout_of_the_task_is_kept() -> None:
    async with Harness(app) as harness:
        for task in (sleeps, loops):
            with pytest.raises(TimeoutError, match=r"timed out after 0\.05 s"):
                await harness.run(task)
        with pytest.raises(TimeoutError, match=r"after 0\.01 s"):
            await harness.run(sleeps.using(timeout=0.01))


@pytest.mark.parametrize("loudly", [False, True])
async def test_a_handler_that_was_told_to_stop_has_timed_out_before_the_loop_knows(
    loudly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeout = asyncio.timeout
    async with Harness(app) as harness:
        monkeypatch.setattr(asyncio, "timeout", lambda _: timeout(60))
        with pytest.raises(TimeoutError, match=r"timed out after 0\.05 s"):
            await harness.run(stops, loudly=loudly)


async def test_whoever_cancels_a_run_sees_it_cancelled() -> None:
    async with Harness(app) as harness:
        running = asyncio.create_task(harness.run(sleeps.using(timeout=60)))
        await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_a_plain_function_runs_in_a_thread_and_may_enqueue() -> None:
    async with Harness(app) as harness:
        ran = await harness.run(where, "a")
        assert ran.result[0] != threading.current_thread().name
        await harness.assert_enqueued(sent.using(queue="mail"), to="a")


def test_without_a_loop_a_plain_function_runs_in_the_thread_of_the_test() -> None:
    TENANT.set("acme")
    with SyncHarness(app) as harness:
        ran = harness.run(where, "a")
        assert ran.result == (threading.current_thread().name, "acme")
        harness.assert_enqueued(sent, to="a")
        assert harness.attempt(2, checkpoint=7).run(copy).result == (2, 5, 7)
        for task in (sleeps, loops):
            with pytest.raises(TimeoutError):
                harness.run(task)
        assert app.sync.count() == {JobState.READY: 1}
