"""Jobs do not disturb each other, nor the worker that runs them."""

from __future__ import annotations

import asyncio
import threading
import time
from contextvars import ContextVar

import pytest

from holdfast.errors import BadOption
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.store import Store
from holdfast.worker.options import WorkerOptions
from tests.support.waiting import wait_until
from tests.support.working import ONCE, Shop

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


async def test_context_variables_of_a_job_are_not_seen_by_the_next(live_store: Store) -> None:
    async def set_it() -> str:
        before = tenant.get()
        tenant.set("somebody")
        return before

    def set_it_in_a_thread() -> str:
        before = tenant.get()
        tenant.set("a thread")
        return before

    shop = Shop(live_store, set_it, set_it_in_a_thread)
    names = [set_it, set_it_in_a_thread] * 10
    ids = [await shop.enqueue(function) for function in names]
    await shop.drain(queues={"default": 2}, threads=1)
    assert {(await shop.get(job_id)).result for job_id in ids} == {"nobody"}


async def test_a_handler_inherits_what_was_set_where_the_worker_started(
    live_store: Store,
) -> None:
    async def read() -> str:
        return tenant.get()

    def read_in_a_thread() -> str:
        return tenant.get()

    shop = Shop(live_store, read, read_in_a_thread)
    ids = [await shop.enqueue(read), await shop.enqueue(read_in_a_thread)]
    token = tenant.set("the program")
    try:
        await shop.drain()
    finally:
        tenant.reset(token)
    assert {(await shop.get(job_id)).result for job_id in ids} == {"the program"}


async def test_a_handler_that_cancels_itself_harms_no_other(live_store: Store) -> None:
    async def cancel_me() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            return "swallowed"
        return "not cancelled"

    async def leak() -> None:
        inner = asyncio.ensure_future(asyncio.sleep(60))
        inner.cancel()
        await inner

    shop = Shop(live_store, cancel_me, leak)
    pairs = [(await shop.enqueue(cancel_me), await shop.enqueue(leak, policy=ONCE)) for _ in "12"]
    async with shop.worker({"default": 1}):
        for swallowed, leaked in pairs:
            job = await shop.until(swallowed, lambda job: job.ended, within=5)
            assert job.result == "swallowed"
            job = await shop.until(leaked, lambda job: job.ended, within=5)
            assert job.errors[0].kind == "CancelledError"


async def test_a_blocked_loop_keeps_its_lease_and_is_reported(live_store: Store) -> None:
    lease = 2.0  # as long as a busy machine may keep the thread of the heartbeats waiting

    async def block() -> str:
        time.sleep(1.5 * lease)  # noqa: ASYNC251 - the very thing under test
        return "kept"

    shop = Shop(live_store, block)
    job_id = await shop.enqueue(block)
    other = live_store.sibling()
    lapsed: list[object] = []
    stop = threading.Event()

    def look_from_outside() -> None:
        async def look() -> None:
            await other.open()
            try:
                while not stop.is_set():
                    lapsed.extend(await other.jobs.lapsed_leases(10))
                    lapsed.extend(w for w in await other.workers.find() if not w.alive)
                    await asyncio.sleep(0.05)
            finally:
                await other.close()

        asyncio.run(look())

    observer = threading.Thread(target=look_from_outside)
    async with shop.worker(lease=lease) as worker:
        observer.start()
        try:
            await worker.drain()
        finally:
            stop.set()
            await asyncio.to_thread(observer.join)
    assert lapsed == []
    job = await shop.get(job_id)
    assert (job.state, job.result, job.attempts) == (JobState.SUCCEEDED, "kept", 1)
    blocked = shop.reported("worker.loop_blocked")[0]
    assert job_id in str(blocked.fields["running"])
    assert "time.sleep" in str(blocked.fields["stack"])
    assert shop.reported("worker.loop_turns_again")


async def test_a_full_queue_does_not_hold_up_another(live_store: Store) -> None:
    release = asyncio.Event()

    async def slow() -> None:
        await release.wait()

    async def quick() -> None: ...

    shop = Shop(live_store, slow, quick)
    for _ in range(20):
        await shop.enqueue(slow, queue="slow")
    async with shop.worker({"slow": 2, "quick": 2}, poll=30) as worker:
        await wait_until(lambda: worker.health()["running"] == 2, 5, "the slow queue is full")
        ids = [await shop.enqueue(quick, queue="quick") for _ in range(50)]
        for job_id in ids:
            await shop.until(job_id, lambda job: job.ended, within=5)
        counted = await live_store.jobs.count(JobFilter(queues=("slow",)))
        assert counted == {JobState.RUNNING: 2, JobState.READY: 18}
        release.set()
        await worker.drain()


async def test_no_queue_ever_runs_more_than_its_slots(live_store: Store) -> None:
    now: dict[str, int] = {"a": 0, "b": 0}
    most: dict[str, int] = {"a": 0, "b": 0}

    async def count(queue: str) -> None:
        now[queue] += 1
        most[queue] = max(most[queue], now[queue])
        await asyncio.sleep(0.001)
        now[queue] -= 1

    shop = Shop(live_store, count)
    for n in range(120):
        queue = "ab"[n % 2]
        await shop.enqueue(count, queue, queue=queue)
    assert await shop.drain(queues={"a": 3, "b": 7}) == 120
    assert most == {"a": 3, "b": 7}


async def test_an_idle_worker_picks_up_a_job_without_waiting_for_its_poll(
    live_store: Store,
) -> None:
    async def fine() -> None: ...

    shop = Shop(live_store, fine)
    async with shop.worker(poll=60) as worker:
        await worker.drain()
        job_id = await shop.enqueue(fine)
        await shop.until(job_id, lambda job: job.ended, within=5)


async def test_nothing_is_left_behind_by_a_worker(sealed_store: Store) -> None:
    async def fine() -> None: ...

    def fine_thread() -> None: ...

    shop = Shop(sealed_store, fine, fine_thread)
    for n in range(40):
        await shop.enqueue((fine, fine_thread)[n % 2])
    assert await shop.drain() == 40
    assert await sealed_store.workers.find() == []


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"queues": {}}, "queues"),
        ({"queues": ["mail"]}, "queues with their slots"),
        ({"queues": {"mail": 0}}, "'mail'"),
        ({"queues": {"mail": "5"}}, "'mail'"),
        ({"queues": {"mail": 1}, "lease": 0.1}, "lease"),
        ({"queues": {"mail": 1}, "grace": -1.0}, "grace"),
        ({"queues": {"mail": 1}, "threads": 0}, "threads"),
        ({"queues": {"mail": 1}, "poll": 0.0}, "poll"),
    ],
)
def test_an_option_outside_its_range_is_named(options: dict[str, object], named: str) -> None:
    with pytest.raises(BadOption, match=named):
        WorkerOptions(**options)  # type: ignore[arg-type]
