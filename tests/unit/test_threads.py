"""handlers/threads.py: plain functions in threads."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Iterator

import pytest

from holdfast.handlers.threads import Threads
from tests.support.waiting import wait_until


class Heavy:
    """Stands for what a call holds in memory."""


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def nothing() -> None: ...


async def test_an_idle_thread_does_not_keep_its_last_call_alive(no_collector: None) -> None:
    """A function that had returned 700 MB kept it until its thread got another job."""
    threads = Threads(1)

    def heavy() -> Heavy:
        return Heavy()

    held = weakref.ref(await threads.run(heavy, nothing))
    await wait_until(lambda: held() is None, 10, "the value is freed")
    threads.close()


async def test_what_a_raising_function_held_is_freed_once_its_error_was_seen(
    no_collector: None,
) -> None:
    threads = Threads(1)
    seen: list[weakref.ref[Heavy]] = []

    def heavy() -> None:
        mine = Heavy()
        seen.append(weakref.ref(mine))
        raise ValueError("held")

    async def attempt() -> None:
        with pytest.raises(ValueError, match="held"):
            await threads.run(heavy, nothing)

    await attempt()
    await wait_until(lambda: seen[0]() is None, 10, "the frame is freed")
    threads.close()


async def test_a_cancel_withdraws_a_call_that_waits_for_a_thread() -> None:
    threads, release = Threads(1), threading.Event()
    ran: list[str] = []
    started = threading.Event()

    def slow() -> bool:
        started.set()
        return release.wait(10)

    busy = asyncio.create_task(threads.run(slow, nothing))
    waiting = asyncio.create_task(threads.run(lambda: ran.append("ran"), nothing))
    await wait_until(started.is_set, 10, "the thread is busy")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    release.set()
    assert await busy is True
    threads.close()
    await asyncio.sleep(0.05)
    assert ran == []


async def test_a_cancel_waits_for_a_call_that_has_started_and_what_it_returns_stands() -> None:
    threads, started, release = Threads(1), threading.Event(), threading.Event()

    def slow() -> str:
        started.set()
        release.wait(10)
        return "done"

    call = asyncio.create_task(threads.run(slow, nothing))
    await wait_until(started.is_set, 5, "it has started")
    for _ in range(3):
        call.cancel()
        await asyncio.sleep(0.02)
    assert not call.done()
    release.set()
    assert await call == "done"
    threads.close()


async def test_a_closed_pool_lets_go_of_calls_that_do_not_return() -> None:
    threads, started, release = Threads(1), threading.Event(), threading.Event()

    def slow() -> None:
        started.set()
        release.wait(10)

    call = asyncio.create_task(threads.run(slow, nothing))
    await wait_until(started.is_set, 5, "it has started")
    assert threads.close() == 1
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    release.set()


async def test_a_cancel_that_meets_the_answer_on_its_way_loses_nothing() -> None:
    """The slot of such a call was lost for ever."""
    threads, started, release = Threads(1), threading.Event(), threading.Event()

    def slow() -> str:
        started.set()
        release.wait(10)
        return "done"

    call = asyncio.create_task(threads.run(slow, nothing))
    await wait_until(started.is_set, 10, "it has started")
    release.set()
    time.sleep(0.05)  # noqa: ASYNC251 - the answer is queued while the loop does not turn
    call.cancel()
    async with asyncio.timeout(5):
        assert await call == "done"
    threads.close()
