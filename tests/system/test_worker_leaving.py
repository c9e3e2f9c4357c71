"""A worker leaves: what finishes, what is handed back, what it says about the rest."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path

import pytest

from holdfast.context import Context
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.store import Store
from tests.support import process_handlers as handlers
from tests.support.flaky import FlakyStore, Line
from tests.support.waiting import wait_until
from tests.support.working import Shop


async def test_running_work_is_let_finish_within_the_grace(sealed_store: Store) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        started.set()
        await go_on.wait()
        return "finished"

    shop = Shop(sealed_store, slow)
    job_id = await shop.enqueue(slow)
    worker = shop.new_worker(grace=30)
    await worker.start()
    await started.wait()
    leaving = asyncio.create_task(worker.stop())
    later = await shop.enqueue(slow)
    go_on.set()
    await leaving
    job = await shop.get(job_id)
    assert (job.state, job.result) == (JobState.SUCCEEDED, "finished")
    assert (await shop.get(later)).state is JobState.READY
    assert await sealed_store.workers.find() == []


async def test_what_outlasts_the_grace_is_handed_back_without_spending_an_attempt(
    sealed_store: Store, tmp_path: Path
) -> None:
    running = threading.Semaphore(0)

    async def slow() -> None:
        running.release()
        await asyncio.sleep(60)

    def slow_thread(ctx: Context) -> None:
        running.release()
        pause = threading.Event()
        while not ctx.cancelled:
            pause.wait(0.01)
        raise RuntimeError("told to stop")

    shop = Shop(sealed_store, slow, slow_thread, sleep_forever=handlers.sleep_forever)
    note = tmp_path / "pid"
    ids = [
        await shop.enqueue(slow),
        await shop.enqueue(slow_thread),
        await shop.enqueue("sleep_forever", str(note)),
    ]
    async with shop.worker(grace=0.05):
        await wait_until(note.exists, 20, "the child runs")
        for _ in range(2):
            await wait_until(lambda: running.acquire(blocking=False), 5, "handlers run")
    for job_id in ids:
        job = await shop.get(job_id)
        assert (job.state, job.attempts, job.errors) == (JobState.READY, 0, ())
    assert not shop.reported("worker.handlers_did_not_stop")


async def test_a_handler_that_will_not_stop_is_handed_back_and_reported(
    sealed_store: Store,
) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    async def deaf() -> None:
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    shop = Shop(sealed_store, deaf)
    job_id = await shop.enqueue(deaf)
    async with shop.worker(grace=0.0, patience=0.1):
        await started.wait()
    job = await shop.get(job_id)
    assert (job.state, job.attempts) == (JobState.READY, 0)
    [report] = shop.reported("worker.handlers_did_not_stop")
    assert job_id in str(report.fields["jobs"])
    [left] = shop.reported("worker.left_behind")
    assert left.fields["coroutines"] == 1
    release.set()
    assert (await shop.get(job_id)).state is JobState.READY


async def test_claiming_stops_everywhere_the_moment_a_stop_is_asked_for(
    live_store: Store,
) -> None:
    """Not slot after slot: an ending slot must not make room for another job."""
    ran: list[int] = []
    first = asyncio.Event()

    async def count(n: int) -> None:
        ran.append(n)
        first.set()
        await asyncio.sleep(0.02)

    shop = Shop(live_store, count)
    for n in range(200):
        await shop.enqueue(count, n, queue=("a", "b")[n % 2])
    worker = shop.new_worker({"a": 2, "b": 2})
    await worker.start()
    await first.wait()
    worker.request_stop()
    await asyncio.sleep(0)
    started = len(ran)
    await worker.stop()
    assert len(ran) <= started + 4
    counted = await live_store.jobs.count(_all())
    assert counted.get(JobState.SUCCEEDED, 0) + counted.get(JobState.READY, 0) == 200
    assert counted.get(JobState.SUCCEEDED, 0) == len(ran)


async def test_what_a_last_claim_brings_is_handed_back_unstarted(live_store: Store) -> None:
    """The stop comes while the store's answer to a claim is on its way."""
    ran: list[int] = []

    async def never() -> None:
        ran.append(1)

    line = Line()
    shop = Shop(FlakyStore(live_store, line), never)
    ids = [await shop.enqueue(never) for _ in range(4)]
    line.hold.add("claim")
    worker = shop.new_worker()
    await worker.start()
    await wait_until(lambda: "claim" in line.held, 5, "a claim is on its way")
    leaving = asyncio.create_task(worker.stop())
    await wait_until(lambda: worker.health()["ready"] is False, 5, "the worker leaves")
    line.release()
    await asyncio.wait_for(leaving, 10)
    for job_id in ids:
        job = await shop.get(job_id)
        assert (job.state, job.attempts) == (JobState.READY, 0)
        assert job.fence > 0, "it was claimed, and handed back"
    assert ran == []


async def test_a_signal_asks_and_a_second_one_does_not_wait(live_store: Store) -> None:
    started = asyncio.Event()

    async def slow() -> None:
        started.set()
        await asyncio.sleep(60)

    shop = Shop(live_store, slow)
    job_id = await shop.enqueue(slow)
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    running = asyncio.create_task(shop.new_worker(grace=60).run())
    await started.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await wait_until(lambda: bool(shop.reported("worker.signal")), 5, "the signal is heard")
    assert not running.done()
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.wait_for(running, 10)
    job = await shop.get(job_id)
    assert (job.state, job.attempts) == (JobState.READY, 0)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


async def test_a_claim_that_is_never_answered_does_not_keep_a_hurried_worker(
    live_store: Store,
) -> None:
    async def fine() -> None: ...

    line = Line()
    shop = Shop(FlakyStore(live_store, line), fine)
    line.hold.add("claim")
    worker = shop.new_worker(grace=60)
    running = asyncio.create_task(worker.run())
    await wait_until(lambda: "claim" in line.held, 5, "a claim is on its way")
    worker.request_stop(now=True)
    await asyncio.wait_for(running, 10)
    assert await live_store.workers.find() == []


async def test_a_store_that_answers_nothing_does_not_keep_a_worker_that_stops(
    live_store: Store,
) -> None:
    started = asyncio.Event()

    async def slow() -> None:
        started.set()
        await asyncio.sleep(60)

    line = Line()
    shop = Shop(FlakyStore(live_store, line), slow)
    await shop.enqueue(slow)
    worker = shop.new_worker(grace=0.0)
    await worker.start()
    await started.wait()
    line.hold.update({"finish", "claim", "heartbeat", "deregister", "page"})
    async with asyncio.timeout(6):
        await worker.stop()
    assert shop.reported("worker.ends_not_written")
    line.release()


async def test_run_in_a_burst_ends_when_nothing_is_left(sealed_store: Store) -> None:
    async def fine() -> None: ...

    shop = Shop(sealed_store, fine)
    ids = [await shop.enqueue(fine) for _ in range(20)]
    await asyncio.wait_for(shop.new_worker().run(burst=True), 20)
    states = {(await shop.get(job_id)).state for job_id in ids}
    assert states == {JobState.SUCCEEDED}


async def test_stopping_twice_and_stopping_unstarted_are_safe(live_store: Store) -> None:
    async def fine() -> None: ...

    shop = Shop(live_store, fine)
    worker = shop.new_worker()
    await worker.stop()
    await worker.start()
    await worker.start()
    await asyncio.gather(worker.stop(), worker.stop())
    await worker.stop()
    assert worker.health()["ready"] is False


def _all() -> JobFilter:

    return JobFilter()


async def test_a_worker_that_leaves_soon_opens_no_connection_for_its_heartbeat(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Store] = []
    plain_open = type(live_store).open

    async def noted_open(store: Store) -> None:
        opened.append(store)
        await plain_open(store)

    async def brief() -> None: ...

    monkeypatch.setattr(type(live_store), "open", noted_open)
    shop = Shop(live_store, brief)
    job = await shop.enqueue(brief)
    await shop.drain(lease=600)
    assert (await shop.get(job)).state is JobState.SUCCEEDED
    assert opened == []
    async with shop.worker(lease=0.6):
        await wait_until(lambda: len(opened) == 1, 10, "the first beat opens one")


class SlowToClose(FlakyStore):
    """The stores that it makes for others close only when they are cut off."""

    def sibling(self) -> Store:
        other = super().sibling()
        close = other.close

        async def slowly() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await close()

        other.close = slowly  # type: ignore[method-assign]
        return other


async def test_heartbeats_whose_connection_does_not_close_in_time_end_without_an_error(
    live_store: Store,
) -> None:
    """Their thread died of it, with a traceback on the screen."""
    shop = Shop(SlowToClose(live_store, Line()))
    async with shop.worker(lease=0.6):
        pass
    [told] = shop.reported("heartbeat.not_closed")
    assert told.fields == {"seconds": pytest.approx(0.2)}
