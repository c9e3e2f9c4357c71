"""Handlers that are told to stop: cancelled, out of time, no longer ours."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast.context import AttemptLost, Context
from holdfast.job.ends import TimedOut
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from tests.support.waiting import wait_until
from tests.support.working import Shop

BRIEF = Policy(retry=Retry.never(), timeout=0.3)


async def test_cancel_stops_a_coroutine_at_once(live_store: Store) -> None:
    started = asyncio.Event()

    async def slow() -> None:
        started.set()
        await asyncio.sleep(60)

    shop = Shop(live_store, slow)
    job_id = await shop.enqueue(slow)
    async with shop.worker(lease=30) as worker:
        await started.wait()
        assert await live_store.jobs.request_cancel([job_id]) == [job_id]
        # A third of the lease is 10 s: only the wakeup can have brought it in time.
        job = await shop.until(job_id, lambda job: job.ended, within=8)
        assert (job.state, job.attempts) == (JobState.CANCELLED, 0)
        assert worker.health()["running"] == 0


async def test_cancel_is_seen_by_a_thread_and_ends_it(live_store: Store) -> None:
    started = threading.Event()

    def slow(ctx: Context) -> None:
        started.set()
        pause = threading.Event()
        while True:
            ctx.check_cancelled()
            pause.wait(0.01)

    shop = Shop(live_store, slow)
    job_id = await shop.enqueue(slow)
    async with shop.worker():
        await wait_until(started.is_set, 5, "the thread runs")
        await live_store.jobs.request_cancel([job_id])
        job = await shop.until(job_id, lambda job: job.ended)
    assert job.state is JobState.CANCELLED


async def test_a_return_after_a_cancel_stands(live_store: Store) -> None:
    started = asyncio.Event()

    async def stubborn() -> str:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "done anyway"
        return "slept"

    shop = Shop(live_store, stubborn)
    job_id = await shop.enqueue(stubborn)
    async with shop.worker():
        await started.wait()
        await live_store.jobs.request_cancel([job_id])
        job = await shop.until(job_id, lambda job: job.ended)
    assert (job.state, job.result) == (JobState.SUCCEEDED, "done anyway")


async def test_any_other_end_after_a_cancel_is_cancelled(live_store: Store) -> None:
    started = asyncio.Event()

    async def upset() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise ValueError("interrupted") from None

    shop = Shop(live_store, upset)
    job_id = await shop.enqueue(upset)
    async with shop.worker():
        await started.wait()
        await live_store.jobs.request_cancel([job_id])
        job = await shop.until(job_id, lambda job: job.ended)
    assert job.state is JobState.CANCELLED


async def test_a_timeout_stops_a_coroutine_and_counts_as_a_failure(live_store: Store) -> None:
    ran: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ran.append("cleaned up")

    shop = Shop(live_store, slow)
    job_id = await shop.enqueue(slow, policy=BRIEF)
    await shop.drain()
    job = await shop.get(job_id)
    assert (job.state, job.attempts, ran) == (JobState.FAILED, 1, ["cleaned up"])
    assert (job.errors[0].kind, job.errors[0].message) == ("TimedOut", "timed out after 0.3 s")


async def test_a_timeout_is_retried_like_any_failure(live_store: Store) -> None:
    async def slow_once(ctx: Context) -> int:
        if ctx.attempt == 1:
            await asyncio.sleep(60)
        return ctx.attempt

    shop = Shop(live_store, slow_once)
    policy = Policy(retry=Retry(max_attempts=2, base=0, jitter=0), timeout=0.3)
    job_id = await shop.enqueue(slow_once, policy=policy)
    await shop.drain()
    job = await shop.get(job_id)
    assert (job.state, job.result) == (JobState.SUCCEEDED, 2)


async def test_an_attempt_that_was_taken_away_is_stopped_and_its_end_not_written(
    live_store: Store,
) -> None:
    """What a reconciler does to an overdue attempt, seen by the worker that runs it."""
    started, stopped = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    shop = Shop(live_store, slow)
    job_id = await shop.enqueue(slow, policy=Policy(retry=Retry.never()))
    async with shop.worker(lease=0.6) as worker:
        await started.wait()
        await take_away(live_store, job_id)
        await asyncio.wait_for(stopped.wait(), 5)
        await wait_until(lambda: worker.health()["discarded"] == 1, 5, "the end is discarded")
    job = await shop.get(job_id)
    assert (job.state, job.attempts, len(job.errors)) == (JobState.FAILED, 1, 1)
    assert len(shop.reported("job.lost")) == 1


async def test_progress_of_a_lost_attempt_is_refused(live_store: Store) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()
    seen: list[BaseException] = []

    async def slow(ctx: Context) -> None:
        started.set()
        await go_on.wait()
        try:
            await ctx.progress(0.5)
        except AttemptLost as lost:
            seen.append(lost)
            raise

    shop = Shop(live_store, slow)
    job_id = await shop.enqueue(slow, policy=Policy(retry=Retry.never()))
    async with shop.worker(lease=30):
        await started.wait()
        await take_away(live_store, job_id)
        go_on.set()
        await wait_until(lambda: bool(seen), 5, "the report is refused")
        await wait_until(
            lambda: bool(shop.reported("job.end_refused")), 5, "the late end is refused"
        )
    assert "taken away" in str(seen[0])
    assert (await shop.get(job_id)).attempts == 1


async def take_away(store: Store, job_id: JobId) -> None:
    [live] = await store.jobs.live([job_id])
    [verdict] = await store.jobs.finish([decide(live, TimedOut(1))])
    assert verdict.accepted


@pytest.mark.parametrize("paused_first", [True, False])
async def test_pausing_a_queue_leaves_running_handlers_alone(
    live_store: Store, paused_first: bool
) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        started.set()
        await go_on.wait()
        return "finished"

    shop = Shop(live_store, slow)
    running = await shop.enqueue(slow)
    async with shop.worker({"default": 1}, lease=0.6) as worker:
        await started.wait()
        waiting = await shop.enqueue(slow) if paused_first else None
        await live_store.queues.pause(["default"])
        if waiting is None:
            waiting = await shop.enqueue(slow)
        go_on.set()
        await worker.drain()
        done = await shop.get(running)
        assert (done.state, done.attempts) == (JobState.SUCCEEDED, 1)
        assert (await shop.get(waiting)).state is JobState.READY
        await live_store.queues.resume(["default"])
        await worker.drain()
        assert (await shop.get(waiting)).state is JobState.SUCCEEDED
