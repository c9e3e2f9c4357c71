"""A plain function runs in a thread; with `process=True` in a child that can be killed."""

from __future__ import annotations

import os
import threading

import pytest

from holdfast import App, JobFailed, Retry
from tests.fundamentals import cpu_work

app = App("sqlite://")
process_id = app.task(process=True)(cpu_work.process_id)
spin = app.task(process=True, timeout=0.2, retry=Retry.never())(cpu_work.spin)


@app.task()
def thread_name() -> str:
    """May block: the event loop goes on."""
    return threading.current_thread().name


async def test_a_plain_function_runs_in_a_thread() -> None:
    async with app:
        job = await thread_name.enqueue()
        async with app.worker():
            assert await job.result(timeout=10) != threading.current_thread().name


async def test_a_function_can_run_in_a_child_process() -> None:
    async with app:
        job = await process_id.enqueue()
        async with app.worker():
            assert await job.result(timeout=30) != os.getpid()


async def test_a_child_that_takes_too_long_is_killed() -> None:
    async with app:
        job = await spin.enqueue()
        async with app.worker():
            with pytest.raises(JobFailed, match="timed out"):
                await job.result(timeout=30)
