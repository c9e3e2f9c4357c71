"""Slots and queues of a worker change while it runs, and nothing that runs is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from holdfast.errors import BadOption
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from holdfast.store.contract.wakeups import Topic, Wakeup
from holdfast.store.contract.workers import Beat, Order, Resize
from tests.support.waiting import wait_until
from tests.support.working import ONCE, Shop


class Work:
    """Handlers that end when a test says so; `running` counts them, `cancelled` those it lost."""

    def __init__(self, store: Store) -> None:
        self.running = self.most = self.cancelled = 0
        self.gate = asyncio.Semaphore(0)
        self.shop = Shop(store, self.wait)

    async def wait(self) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.gate.acquire()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    async def enqueue(self, count: int, queue: str = "default") -> list[Any]:
        return [await self.shop.enqueue("wait", queue=queue, policy=ONCE) for _ in range(count)]

    async def runs(self, count: int) -> None:
        await wait_until(lambda: self.running == count, 10, f"{count} handlers, not {self.running}")

    def let_end(self, count: int = 100) -> None:
        for _ in range(count):
            self.gate.release()


async def test_a_queue_that_grows_runs_more_jobs_at_once(live_store: Store) -> None:
    work = Work(live_store)
    await work.enqueue(6)
    async with work.shop.worker({"default": 2}) as worker:
        await work.runs(2)
        worker.resize("default", 5)
        await work.runs(5)
        work.let_end()
        await worker.drain()
    assert (work.most, work.cancelled) == (5, 0)


async def test_a_queue_that_shrinks_lets_what_runs_end_and_runs_fewer_then(
    live_store: Store,
) -> None:
    work = Work(live_store)
    jobs = await work.enqueue(9)
    async with work.shop.worker({"default": 4}, poll=0.05) as worker:
        await work.runs(4)
        worker.resize("default", 1)
        work.let_end(3)
        await work.runs(1)
        work.most = 0
        await asyncio.sleep(0.3)
        assert work.running == 1
        work.let_end()
        await worker.drain()
    assert (work.most, work.cancelled) == (1, 0)
    assert {(await work.shop.get(job)).state for job in jobs} == {JobState.SUCCEEDED}


async def test_a_queue_can_be_added_while_the_worker_runs(live_store: Store) -> None:
    work = Work(live_store)
    jobs = await work.enqueue(2, queue="mail")
    async with work.shop.worker({"default": 2}, poll=0.05) as worker:
        await asyncio.sleep(0.2)
        assert work.running == 0
        worker.resize("mail", 2)
        await work.runs(2)
        jobs += await work.enqueue(1, queue="mail")  # a wakeup or a poll tells of this one
        work.let_end()
        await worker.drain()
        assert {(await work.shop.get(job)).state for job in jobs} == {JobState.SUCCEEDED}


async def test_a_queue_can_be_removed_and_what_has_not_begun_waits_for_others(
    live_store: Store,
) -> None:
    work = Work(live_store)
    jobs = await work.enqueue(5, queue="mail")
    async with work.shop.worker({"default": 1, "mail": 2}, poll=0.05) as worker:
        await work.runs(2)
        worker.resize("mail", 0)
        work.let_end()
        await work.runs(0)
        async with asyncio.timeout(10):
            await worker.drain()  # what is left is no business of this worker
        await asyncio.sleep(0.2)
        states = [(await work.shop.get(job)).state for job in jobs]
        assert sorted(states) == [JobState.READY] * 3 + [JobState.SUCCEEDED] * 2
        worker.resize("mail", 1)
        await worker.drain()
        assert {(await work.shop.get(job)).state for job in jobs} == {JobState.SUCCEEDED}
    assert work.cancelled == 0


async def test_a_worker_obeys_the_orders_that_a_heartbeat_brings(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[tuple[Order, ...]] = []
    sibling = live_store.sibling

    def ordering() -> Store:
        store = sibling()
        heartbeat = store.workers.heartbeat

        async def beat(*args: Any, **kwargs: Any) -> Beat:
            answer = await heartbeat(*args, **kwargs)
            given = orders.pop(0) if orders else ()
            return msgspec.structs.replace(answer, orders=given)

        monkeypatch.setattr(store.workers, "heartbeat", beat)
        return store

    monkeypatch.setattr(live_store, "sibling", ordering)
    work = Work(live_store)
    await work.enqueue(3)
    await work.enqueue(1, queue="mail")
    async with work.shop.worker({"default": 1}, poll=0.05) as worker:
        await work.runs(1)
        orders.append((Resize("default", -1), Resize("default", 3), Resize("mail", 1)))
        # The next beat of its long lease is far away: this asks for one now.
        live_store.wakeups.tell(Wakeup(Topic.CANCEL, worker.id))
        await work.runs(4)
        work.let_end()
        await worker.drain()
    assert work.cancelled == 0
    resized = [(event.fields["queue"], event.fields["slots"]) for event in told(work.shop.seen)]
    assert resized == [("default", 3), ("mail", 1)]
    assert len(work.shop.reported("worker.order_refused")) == 1


def told(events: Sequence[Any]) -> list[Any]:
    return [event for event in events if event.name == "worker.resized"]


@pytest.mark.parametrize(("queue", "slots"), [("default", -1), ("default", 1.5), ("", 1)])
async def test_a_resize_that_makes_no_sense_changes_nothing(
    live_store: Store, queue: str, slots: Any
) -> None:
    work = Work(live_store)
    await work.enqueue(2)
    async with work.shop.worker({"default": 1}) as worker:
        await work.runs(1)
        with pytest.raises(BadOption):
            worker.resize(queue, slots)
        work.let_end()
        await worker.drain()
    assert work.most == 1


async def test_plain_functions_of_a_queue_that_grows_find_threads(live_store: Store) -> None:
    both = threading.Barrier(3, timeout=10)

    def meet() -> None:
        both.wait()

    shop = Shop(live_store, meet)
    jobs = [await shop.enqueue(meet, policy=ONCE) for _ in range(3)]
    async with shop.worker({"default": 1}, poll=0.05) as worker:
        worker.resize("default", 3)
        await worker.drain()
    assert {(await shop.get(job)).state for job in jobs} == {JobState.SUCCEEDED}
