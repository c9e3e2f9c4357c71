"""An operator drains a worker: it leaves as after SIGTERM, whatever its handlers do."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from holdfast.client.client import Client
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from holdfast.worker.last_resort import LATE
from tests.support import rough
from tests.support.backends import opened
from tests.support.real_worker import RealWorkers, real_workers
from tests.support.shell import STARTS, Shell, alive, ended, enqueue, wait_for_state
from tests.support.waiting import wait_until
from tests.support.working import Shop

LONG = 60.0
"""A lease after which no worker of these tests would beat by itself: it has to be woken."""


@pytest.fixture
async def store(shell: Shell) -> AsyncIterator[Store]:
    async with opened(shell.url) as store:
        yield store


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[RealWorkers]:
    with real_workers(tmp_path) as workers:
        yield workers


# In one process ----------------------------------------------------------------------------------


async def test_a_drained_worker_finishes_what_runs_claims_no_more_and_leaves(
    sealed_store: Store,
) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        started.set()
        await go_on.wait()
        return "finished"

    shop = Shop(sealed_store, slow)
    running = await shop.enqueue(slow)
    worker = shop.new_worker(lease=LONG, grace=30)
    working = asyncio.create_task(worker.run())
    await started.wait()
    client = Client(sealed_store)
    [told] = await client.workers.drain(worker.id)
    await wait_until(lambda: worker.health()["leaving"] == "drain", 10, "the order arrives")
    later = await shop.enqueue(slow)
    [info] = await client.workers.all()
    assert (told.id, info.standing) == (worker.id, "draining")
    go_on.set()
    async with asyncio.timeout(10):
        await working
    assert (await shop.get(running)).result == "finished"
    assert (await shop.get(later)).state is JobState.READY
    assert await client.workers.left([told.id]) == []
    assert not worker.wants_successor
    [event] = shop.reported("worker.draining")
    assert event.fields == {"worker": told.id, "running": 1}
    await client.aclose()


async def test_a_drained_worker_leaves_although_nobody_waits_in_run(live_store: Store) -> None:
    async def work() -> None: ...

    shop = Shop(live_store, work)
    async with shop.worker(lease=LONG) as worker:
        await live_store.workers.request_drain([worker.id])

        async def is_gone() -> bool:
            return await live_store.workers.find() == []

        await wait_until(is_gone, 10, "the worker has left")
        later = await shop.enqueue(work)
        assert (await shop.get(later)).state is JobState.READY


async def test_a_handler_that_never_ends_is_handed_back_after_the_grace(
    live_store: Store,
) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    async def deaf() -> None:
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    shop = Shop(live_store, deaf)
    job = await shop.enqueue(deaf)
    worker = shop.new_worker(lease=LONG, grace=0.05, patience=0.1)
    working = asyncio.create_task(worker.run())
    await started.wait()
    await live_store.workers.request_drain([worker.id])
    async with asyncio.timeout(10):
        await working
    found = await shop.get(job)
    assert (found.state, found.attempts) == (JobState.READY, 0)
    assert await live_store.workers.find() == []
    release.set()


async def test_a_worker_that_retires_and_is_drained_gets_no_successor() -> None:
    async with opened("sqlite://") as store:
        started, go_on = asyncio.Event(), asyncio.Event()

        async def slow() -> None:
            started.set()
            await go_on.wait()

        shop = Shop(store, slow)
        await shop.enqueue(slow)
        worker = shop.new_worker(lease=LONG, grace=30)
        working = asyncio.create_task(worker.run())
        await started.wait()
        worker.retire()
        assert worker.wants_successor
        await store.workers.request_drain([worker.id])
        await wait_until(lambda: not worker.wants_successor, 10, "the order counts")
        go_on.set()
        await working


# Real processes ----------------------------------------------------------------------------------


async def test_a_drained_process_ends_with_exit_code_0_and_is_waited_for(
    shell: Shell, store: Store
) -> None:
    job = await enqueue(store, "sleep", seconds=600)
    worker = shell.start("worker", "shop:app", "--name", "clerk", "--grace", "0", "--lease", "60")
    await wait_for_state(store, job, JobState.RUNNING)
    code, out, _ = shell.run("workers", "drain", "clerk", "--wait", "--url", shell.url, "--json")
    assert code == 0
    assert [one["name"] for one in json.loads(out)["draining"]] == ["clerk"]
    code, _, err = ended(worker)
    assert (code, await alive(store)) == (0, [])
    assert "1 handed back" in err
    [found] = await store.jobs.get([job])
    assert (found.state, found.attempts) == (JobState.READY, 0)


async def test_the_jobs_of_a_worker_that_is_killed_while_it_drains_are_taken_over(
    shell: Shell, store: Store
) -> None:
    job = await enqueue(store, "sleep", seconds=600)
    worker = shell.start("worker", "shop:app", "--grace", "10m")
    await wait_for_state(store, job, JobState.RUNNING)
    [info] = await alive(store)
    await store.workers.request_drain([info.id])

    async def drains() -> bool:
        return any(one.facts.leaving for one in await store.workers.find())

    await wait_until(drains, STARTS, "the worker says that it leaves")
    worker.send_signal(signal.SIGKILL)
    ended(worker)
    other = shell.start("worker", "shop:app", "--grace", "0")

    async def taken_over() -> bool:
        [found] = await store.jobs.get([job])
        return found.crashes == 1 or found.attempts == 1

    await wait_until(taken_over, STARTS, "another worker takes the job over")
    assert info.id not in {one.id for one in await alive(store)}
    other.send_signal(signal.SIGTERM)
    assert ended(other)[0] == 0


async def test_a_worker_with_a_blocked_loop_leaves_after_its_grace(
    workers: RealWorkers, tmp_path: Path
) -> None:
    """The order never reaches the loop. The heartbeat's thread has heard it, and gives the loop
    up."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with rough.app.using_store(url):
        async with rough.app as app:
            handles = [await rough.linger.enqueue(60), await rough.hog.enqueue("sleep")]
            process = workers.start(url, "--grace=1s", "--lease=6s")
            await workers.noted("hog")
            await workers.noted("linger")
            [info] = await app.store.workers.find()
            await app.store.workers.request_drain([info.id])
            await wait_until(lambda: process.poll() is not None, 20, "the worker leaves")
            assert process.returncode == LATE
            for handle in handles:
                job = await handle.get()
                assert (job.state, job.attempts, job.crashes) == (JobState.READY, 0, 0)


async def test_a_group_fills_no_place_of_a_drained_process_and_ends_with_the_last(
    shell: Shell, store: Store
) -> None:
    arguments = ("--processes", "2", "--name", "clerk", "--lease", "60", "--json")
    parent = shell.start("worker", "shop:app", *arguments)

    async def names() -> set[str]:
        return {one.name for one in await alive(store)}

    async def both() -> bool:
        return await names() == {"clerk-1", "clerk-2"}

    await wait_until(both, STARTS, "both processes work")
    [other] = [one.pid for one in await alive(store) if one.name == "clerk-2"]
    assert shell.run("workers", "drain", "clerk-1", "--wait", "--url", shell.url)[0] == 0
    children = psutil.Process(parent.pid).children

    async def one_left() -> bool:
        return [child.pid for child in children()] == [other]

    await wait_until(one_left, STARTS, "the drained process has ended")
    assert await names() == {"clerk-2"}
    assert shell.run("workers", "drain", "clerk-2", "--wait", "--url", shell.url)[0] == 0
    code, out, err = ended(parent)
    assert (code, json.loads(out)["restarts"]) == (0, 0)
    assert err.count("was drained: none takes its place") == 2
