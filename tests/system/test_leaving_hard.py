"""A worker leaves in time, whatever its handlers and its store do."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.app import App
from holdfast.errors import WorkerFrozen
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from holdfast.worker.last_resort import FROZEN, LATE
from tests.support import rough
from tests.support.proxy import proxy_to
from tests.support.real_worker import RealWorkers, real_workers, seconds_to_leave
from tests.support.waiting import wait_until
from tests.support.working import Shop

A_FEW_SECONDS = 10.0
AT_ONCE = 5.0
TERM = signal.SIGTERM
HOW = {"sqlite": "python", "postgres": "sleep", "valkey": "c"}
"""How the loop is blocked: each way once, beside some store."""


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[RealWorkers]:
    with real_workers(tmp_path) as workers:
        yield workers


@pytest.fixture
async def app(shared_url: str) -> AsyncIterator[App]:
    with rough.app.using_store(shared_url):
        async with rough.app:
            yield rough.app


# A blocked loop ---------------------------------------------------------------------------


async def test_innocents_of_a_blocked_loop_are_handed_on_and_the_worker_leaves(
    workers: RealWorkers, app: App, shared_url: str
) -> None:
    innocents = await rough.linger.enqueue_many([(60,)] * 3)
    frozen = workers.start(shared_url, "--lease=30s", "--max-block=1s")
    await workers.noted("linger", 3)
    culprit = await rough.hog.enqueue(HOW[app.store.kind])
    await workers.noted("hog")
    idle = workers.start(shared_url, "--lease=30s", "--grace=0s")
    await wait_until(lambda: frozen.poll() is not None, 10, "the frozen worker leaves")
    assert frozen.returncode == FROZEN
    await workers.noted("linger", 6)
    for handle in innocents:
        job = await handle.get()
        assert (job.state, job.attempts, job.crashes) == (JobState.RUNNING, 0, 0)
    job = await culprit.get()
    assert (job.attempts, job.crashes, job.errors[0].kind) == (1, 1, "WorkerLost")
    assert "kept its event loop" in job.errors[0].message
    assert "in hog" in job.errors[0].message
    assert "worker.loop_frozen" in workers.log()
    assert await seconds_to_leave(idle, TERM) < A_FEW_SECONDS


async def test_a_blocked_worker_that_is_told_to_stop_leaves_after_its_grace(
    workers: RealWorkers, app: App, shared_url: str
) -> None:
    handles = [await rough.linger.enqueue(60), await rough.hog.enqueue(HOW[app.store.kind])]
    worker = workers.start(shared_url, "--grace=1s", "--lease=60s")
    await workers.noted("hog")
    await workers.noted("linger")
    took = await seconds_to_leave(worker, TERM)
    assert took < 1 + A_FEW_SECONDS
    assert worker.returncode == LATE
    for handle in handles:
        job = await handle.get()
        assert (job.state, job.attempts, job.crashes) == (JobState.READY, 0, 0)
    assert await app.client.workers.all() == []


async def test_a_second_signal_ends_a_blocked_worker_at_once(
    workers: RealWorkers, app: App, shared_url: str
) -> None:
    await rough.hog.enqueue("c")
    worker = workers.start(shared_url, "--grace=60s", "--lease=60s")
    await workers.noted("hog")
    assert await seconds_to_leave(worker, TERM, TERM) < AT_ONCE + 1


async def test_an_embedded_worker_whose_loop_was_blocked_says_so_when_it_turns_again(
    live_store: Store,
) -> None:
    started, stopped = asyncio.Event(), list[str]()

    async def hog() -> str:
        await started.wait()
        time.sleep(1.5)  # noqa: ASYNC251 - blocking the loop is what it is for
        return "too late"

    async def innocent() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append("innocent")

    shop = Shop(live_store, hog, innocent)
    culprit, other = await shop.enqueue(hog), await shop.enqueue(innocent)
    worker = shop.new_worker(max_block=0.5, lease=30)
    with pytest.raises(WorkerFrozen, match=r"did not turn for .*max_block"):
        await asyncio.wait_for(worker.run(), 20)
    assert stopped == ["innocent"]
    job = await shop.get(other)
    assert (job.state, job.attempts, job.crashes) == (JobState.READY, 0, 0)
    job = await shop.get(culprit)
    assert (job.state, job.attempts, job.crashes) == (JobState.SCHEDULED, 1, 1)
    [told] = [event.fields for event in shop.seen if event.name == "job.attempt_failed"]
    assert (told["job_id"], told["next"]) == (culprit, JobState.SCHEDULED)
    assert await live_store.workers.find() == []


async def test_what_had_returned_before_the_loop_was_blocked_is_recorded(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fine() -> str:
        return "kept"

    async def hog() -> None:
        await asyncio.sleep(0.2)
        time.sleep(1.5)  # noqa: ASYNC251 - blocking the loop is what it is for

    shop = Shop(live_store, fine, hog)
    good, _ = await shop.enqueue(fine), await shop.enqueue(hog)
    held = asyncio.Event()
    finish = live_store.jobs.finish

    async def stuck(*asked: Any) -> Any:
        await held.wait()
        return await finish(*asked)

    monkeypatch.setattr(live_store.jobs, "finish", stuck)
    worker = shop.new_worker(max_block=0.5, lease=30, grace=0.0)
    with pytest.raises(WorkerFrozen):
        await asyncio.wait_for(worker.run(), 20)
    job = await shop.get(good)
    assert (job.state, job.result) == (JobState.SUCCEEDED, "kept")


# A silent store ---------------------------------------------------------------------------


@asynccontextmanager
async def locked_file(url: str) -> AsyncIterator[Any]:
    """Somebody else's write transaction, held open from the moment it is asked for."""
    path = url.removeprefix("sqlite:///")

    class Lock:
        def __init__(self) -> None:
            self.url = url

        def go_silent(self) -> None:
            other.execute("BEGIN IMMEDIATE")

    with closing(sqlite3.connect(path, isolation_level=None, timeout=10)) as other:
        yield Lock()


def silenced(url: str) -> AbstractAsyncContextManager[Any]:
    return locked_file(url) if url.startswith("sqlite") else proxy_to(url)


@pytest.fixture
async def silent(shared_url: str, app: App) -> AsyncIterator[Any]:
    """A store behind something that can go silent; the test itself has another way to it."""
    async with silenced(shared_url) as hole:
        yield hole


async def at_work(workers: RealWorkers, silent: Any, *arguments: str) -> Any:
    """A worker with a job that goes on and one that returns after the store went silent."""
    await rough.linger.enqueue_many([(60,), (1.0,), (1.0,)])
    worker = workers.start(silent.url, "--lease=30s", *arguments)
    await workers.noted("linger", 3)
    silent.go_silent()
    return worker


async def test_one_signal_is_enough_though_the_store_does_not_answer(
    workers: RealWorkers, silent: Any
) -> None:
    worker = await at_work(workers, silent, "--grace=1s")
    assert await seconds_to_leave(worker, TERM) < 1 + A_FEW_SECONDS


async def test_a_second_signal_ends_it_at_once_though_the_store_does_not_answer(
    workers: RealWorkers, silent: Any
) -> None:
    worker = await at_work(workers, silent, "--grace=60s")
    assert await seconds_to_leave(worker, signal.SIGINT, signal.SIGINT) < AT_ONCE


async def test_several_processes_leave_as_soon_though_the_store_does_not_answer(
    workers: RealWorkers, silent: Any
) -> None:
    worker = await at_work(workers, silent, "--grace=1s", "--processes=2")
    assert await seconds_to_leave(worker, TERM) < 1 + A_FEW_SECONDS
