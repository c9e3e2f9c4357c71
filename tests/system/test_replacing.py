"""Workers that make room for another: SIGHUP, closed terminals, limits of jobs and memory."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import AsyncIterator

import psutil
import pytest

from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.store import Store
from tests.conformance.builders import new_job
from tests.support.backends import opened
from tests.support.shell import (
    SHOP,
    STARTS,
    Shell,
    alive,
    ended,
    enqueue,
    wait_for_state,
    wait_for_workers,
)
from tests.support.waiting import wait_until

ADDED = "\n\n@app.task(name='added')\nasync def added() -> None:\n    pass\n"
HOARD = """

kept = []


@app.task(name="hoard")
def hoard(megabytes: int) -> None:
    kept.append(bytearray(megabytes << 20))
"""


@pytest.fixture
async def store(shell: Shell) -> AsyncIterator[Store]:
    async with opened(shell.url) as store:
        yield store


async def id_of_the_worker(store: Store, but: str = "") -> str:
    found = ""

    async def is_there() -> bool:
        nonlocal found
        found = next((one.id for one in await alive(store) if one.id != but), "")
        return found != ""

    await wait_until(is_there, STARTS, "a worker is alive")
    return found


async def wait_for_successes(store: Store, count: int) -> None:
    async def all_done() -> bool:
        return (await store.jobs.count(JobFilter())).get(JobState.SUCCEEDED, 1) == count

    await wait_until(all_done, STARTS, f"{count} jobs have succeeded")


# SIGHUP -------------------------------------------------------------------------------------


async def test_sighup_lets_a_worker_finish_and_start_anew_with_new_code(
    shell: Shell, store: Store
) -> None:
    job = await enqueue(store, "sleep", seconds=1.0)
    worker = shell.start("worker", "shop:app", "--poll", "0.1")
    await wait_for_state(store, job, JobState.RUNNING)
    first = await id_of_the_worker(store)
    shell.app.write_text(SHOP.format(url=shell.url) + ADDED)
    worker.send_signal(signal.SIGHUP)
    added = await enqueue(store, "added")
    await wait_for_state(store, added, JobState.SUCCEEDED)
    [found] = await store.jobs.get([job])
    assert (found.state, found.attempts) == (JobState.SUCCEEDED, 1)
    await id_of_the_worker(store, but=first)
    assert await wait_for_workers(store, 1) == {worker.pid}
    worker.send_signal(signal.SIGTERM)
    code, _, err = ended(worker)
    assert code == 0
    assert "Traceback" not in err


async def test_a_stop_after_sighup_is_a_stop_and_does_not_hurry(shell: Shell, store: Store) -> None:
    job = await enqueue(store, "sleep", seconds=1.0)
    worker = shell.start("worker", "shop:app")
    await wait_for_state(store, job, JobState.RUNNING)
    for number in (signal.SIGHUP, signal.SIGTERM):
        worker.send_signal(number)
        assert any(f"signal={number.name} immediate=False" in line for line in worker.told())
    code, _, err = ended(worker)
    assert code == 0
    assert "stopped: 1 job ended, 0 handed back" in err
    assert await alive(store) == []


async def test_a_closed_terminal_hands_work_back(shell: Shell, store: Store) -> None:
    job = await enqueue(store, "sleep", seconds=600)
    master, slave = pty.openpty()

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    worker = subprocess.Popen(  # noqa: ASYNC220 - it only starts it
        [sys.executable, "-m", "holdfast", "worker", "shop:app", "--grace", "0"],
        cwd=shell.folder,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        preexec_fn=take_terminal,
    )
    try:
        os.close(slave)
        await wait_for_state(store, job, JobState.RUNNING)
        os.close(master)
        await wait_for_state(store, job, JobState.READY)
        worker.wait(STARTS)
    finally:
        worker.kill()
        worker.wait()
    [found] = await store.jobs.get([job])
    assert (found.state, found.attempts) == (JobState.READY, 0)
    assert await alive(store) == [], "it left for good: nobody is there to look at it"


async def test_a_worker_under_nohup_goes_on(shell: Shell, store: Store) -> None:
    worker = shell.start("worker", "shop:app", ignoring=signal.SIGHUP)
    await wait_for_workers(store, 1)
    worker.send_signal(signal.SIGHUP)
    job = await enqueue(store, "greet", name="Ann")
    await wait_for_state(store, job, JobState.SUCCEEDED)
    worker.send_signal(signal.SIGTERM)
    code, _, err = ended(worker)
    assert code == 0
    assert "SIGHUP" not in err


async def test_sighup_replaces_several_processes_one_by_one(shell: Shell, store: Store) -> None:
    parent = shell.start("worker", "shop:app", "--processes", "2", "--json")
    first = await wait_for_workers(store, 2)
    job = await enqueue(store, "sleep", seconds=1.0)
    await wait_for_state(store, job, JobState.RUNNING)
    shell.app.write_text(SHOP.format(url=shell.url) + ADDED)
    parent.send_signal(signal.SIGHUP)
    least = 2

    async def all_new() -> bool:
        nonlocal least
        pids = {worker.pid for worker in await alive(store)}
        least = min(least, len(pids))
        return len(pids) == 2 and not pids & first

    await wait_until(all_new, STARTS, "both processes are new")
    assert least == 2, "the next one comes before the old one leaves"
    await wait_for_state(store, await enqueue(store, "added"), JobState.SUCCEEDED)
    [found] = await store.jobs.get([job])
    assert (found.state, found.attempts) == (JobState.SUCCEEDED, 1)
    parent.send_signal(signal.SIGTERM)
    code, out, err = ended(parent)
    assert (code, '"restarts": 0' in out) == (0, True), err
    assert "reloaded: all worker processes are new" in err


async def test_broken_code_leaves_the_old_processes_at_work(shell: Shell, store: Store) -> None:
    parent = shell.start("worker", "shop:app", "--processes", "2")
    first = await wait_for_workers(store, 2)
    shell.app.write_text("this is not Python")
    parent.send_signal(signal.SIGHUP)
    assert any("not reloaded: the new worker process 1" in line for line in parent.told())
    job = await enqueue(store, "greet", name="Ann")
    await wait_for_state(store, job, JobState.SUCCEEDED)
    assert {worker.pid for worker in await alive(store)} == first
    parent.send_signal(signal.SIGTERM)
    assert ended(parent)[0] == 0


# Limits -------------------------------------------------------------------------------------


async def test_after_max_jobs_a_worker_starts_anew_in_the_same_process(
    shell: Shell, store: Store
) -> None:
    worker = shell.start("worker", "shop:app", "--max-jobs", "3")
    first = await id_of_the_worker(store)
    for round_of in (1, 2):
        await store.jobs.insert([new_job("greet") for _ in range(3)])
        await wait_for_successes(store, 3 * round_of)
        first = await id_of_the_worker(store, but=first)
    assert await wait_for_workers(store, 1) == {worker.pid}
    worker.send_signal(signal.SIGTERM)
    code, _, err = ended(worker)
    assert code == 0
    assert err.count("worker.retiring") == 2
    assert "reason=max_jobs value=3 limit=3" in err


async def test_a_worker_that_retires_waits_for_long_jobs_beyond_the_grace(
    shell: Shell, store: Store
) -> None:
    job = await enqueue(store, "sleep", seconds=1.5)
    worker = shell.start("worker", "shop:app", "--max-jobs", "1", "--grace", "0")
    await wait_for_state(store, job, JobState.RUNNING)
    first = await id_of_the_worker(store)
    await enqueue(store, "greet", name="Ann")
    await id_of_the_worker(store, but=first)
    [found] = await store.jobs.get([job])
    assert (found.state, found.attempts) == (JobState.SUCCEEDED, 1)
    worker.send_signal(signal.SIGTERM)
    assert ended(worker)[0] == 0


async def test_a_process_that_retires_is_replaced_before_it_has_left(
    shell: Shell, store: Store
) -> None:
    long = new_job("sleep", args='{"seconds": 600}')
    await store.jobs.insert([long, new_job("greet", args='{"name": "Ann"}')])
    arguments = ("--processes", "2", "--max-jobs", "1", "--grace", "0", "--json")
    parent = shell.start("worker", "shop:app", *arguments)
    await wait_for_workers(store, 3)
    parent.send_signal(signal.SIGTERM)
    code, out, err = ended(parent)
    assert (code, '"restarts": 0' in out) == (0, True), err
    [found] = await store.jobs.get([long.id])
    assert (found.state, found.attempts) == (JobState.READY, 0)


async def test_a_worker_that_has_grown_beyond_max_memory_starts_anew(
    shell: Shell, store: Store
) -> None:
    shell.app.write_text(SHOP.format(url=shell.url) + HOARD)
    worker = shell.start("worker", "shop:app", "--max-memory", "250M")
    first = await id_of_the_worker(store)
    await enqueue(store, "hoard", megabytes=250)
    await id_of_the_worker(store, but=first)
    assert await wait_for_workers(store, 1) == {worker.pid}
    assert psutil.Process(worker.pid).memory_info().rss < 250 << 20
    worker.send_signal(signal.SIGTERM)
    code, _, err = ended(worker)
    assert code == 0
    assert "worker.retiring" in err
    assert "reason=max_memory" in err


def test_a_limit_that_is_reached_at_the_start_is_refused(shell: Shell) -> None:
    code, _, err = shell.run("worker", "shop:app", "--max-memory", "5M")
    assert code == 2
    assert "max_memory must be more than the " in err
    assert "that this worker has at its start, got '5M'" in err
