"""A queue that cools down or is paused: the worker that knows of it starts nothing more."""

from __future__ import annotations

import asyncio

from holdfast.job.ends import Throttled
from holdfast.job.ids import JobId, new_job_id
from holdfast.job.policy import encode_policy
from holdfast.job.record import NewJob
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.store import Store
from tests.support.waiting import wait_until
from tests.support.working import QUICK, Shop

SLOTS = 2


async def fill(store: Store, task: str, count: int) -> list[JobId]:
    policy = encode_policy(QUICK)
    jobs = [NewJob(new_job_id(), task, "default", "{}", policy) for _ in range(count)]
    await store.jobs.insert(jobs)
    return [job.id for job in jobs]


async def test_no_further_call_is_made_by_the_worker_that_was_throttled(live_store: Store) -> None:
    """An upstream that said 429 was called up to 4,476 times more by the worker that knew."""
    calls = said = 0

    async def call() -> None:
        nonlocal calls, said
        calls += 1
        await asyncio.sleep(0)
        if calls >= 500:
            said = said or calls
            raise Throttled(60)

    shop = Shop(live_store, call)
    await fill(live_store, "call", 5_000)
    async with shop.worker({"default": SLOTS}) as worker:
        await wait_until(lambda: said > 0 and worker.health()["running"] == 0, 30, "it stops")
        await asyncio.sleep(0.3)
        assert calls <= said + SLOTS
    counts = await live_store.jobs.count(JobFilter())
    assert JobState.RUNNING not in counts
    assert sum(counts.values()) == 5_000


async def test_what_was_claimed_ahead_goes_back_when_its_queue_is_paused(live_store: Store) -> None:
    calls = paused_at = 0

    async def call() -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0.001)

    shop = Shop(live_store, call)
    ids = await fill(live_store, "call", 3_000)
    async with shop.worker({"default": 4}) as worker:
        await wait_until(lambda: calls > 200, 30, "it is under way")
        await live_store.queues.pause(["default"])
        paused_at = calls
        await wait_until(lambda: worker.health()["running"] == 0, 5, "nothing is held")
        await asyncio.sleep(0.2)
        held_on = calls - paused_at
        await live_store.queues.resume(["default"])
        await worker.drain()
    assert held_on <= 40, "a few may begin before the worker hears of it"
    jobs = await live_store.jobs.get(ids)
    assert {(job.state, job.attempts) for job in jobs} == {(JobState.SUCCEEDED, 1)}
