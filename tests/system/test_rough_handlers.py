"""Handlers that fork, stop children or take the process's signals: the worker stays itself."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.app import App
from holdfast.job.state import JobState
from tests.support import rough
from tests.support.real_worker import RealWorkers, real_workers, seconds_to_leave

LOOPS = [False, True]


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[RealWorkers]:
    with real_workers(tmp_path) as workers:
        yield workers


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
async def app(url: str) -> AsyncIterator[App]:
    with rough.app.using_store(url):
        async with rough.app:
            yield rough.app


@pytest.mark.parametrize("plain_loop", LOOPS, ids=["uvloop", "asyncio"])
@pytest.mark.parametrize("how", ["process", "pool"])
async def test_a_child_that_a_handler_stops_does_not_stop_the_worker(
    workers: RealWorkers, app: App, url: str, how: str, plain_loop: bool
) -> None:
    long = await rough.linger.enqueue(60)
    worker = workers.start(url, "--grace=1s", plain_loop=plain_loop)
    await workers.noted("linger")
    job = await rough.stop_a_child.enqueue(how)
    await job.result(timeout=20)
    children = [line for line in workers.notes() if line.startswith("child")]
    assert set(children) == {"child -15" if how == "process" else "child 15"}
    assert worker.poll() is None
    assert (await long.get()).state is JobState.RUNNING, "it was not handed back"
    assert "worker.signal" not in workers.log()
    assert await seconds_to_leave(worker, signal.SIGTERM) < 6
    assert worker.returncode == 0


@pytest.mark.parametrize("plain_loop", LOOPS, ids=["uvloop", "asyncio"])
@pytest.mark.parametrize("how", ["fork", "replace", "loop", "wakeup"])
async def test_a_signal_is_heard_after_a_handler_has_meddled_with_signals(
    workers: RealWorkers, app: App, url: str, how: str, plain_loop: bool
) -> None:
    long = await rough.linger.enqueue(60)
    worker = workers.start(url, "--grace=0s", plain_loop=plain_loop)
    await workers.noted("linger")
    await rough.meddle.enqueue(how)
    await workers.noted("meddled")
    if how in ("loop", "fork"):
        await asyncio.sleep(1.2)  # somebody who takes our place in the loop has it for a second
    assert await seconds_to_leave(worker, signal.SIGTERM) < 6
    assert worker.returncode == 0
    assert "worker.loop_blocked" not in workers.log()
    assert how != "fork" or "child 7" in workers.notes()
    job = await long.get()
    assert (job.state, job.attempts) == (JobState.READY, 0)
