"""Handlers that go on after their time: their slots are lost, counted, and never doubled."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast.context import Context
from holdfast.errors import SlotsLost
from holdfast.insights.explain import explain
from holdfast.insights.worker_checks import check_workers
from holdfast.insights.workforce import Workforce
from holdfast.job.ends import TimedOut
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from holdfast.worker.worker import Worker
from tests.support.waiting import wait_until
from tests.support.working import Shop

BRIEF = Policy(retry=Retry.never(), timeout=0.2)
RETRIED = Policy(retry=Retry(max_attempts=5, base=0, jitter=0), timeout=0.2)


async def stuck(worker: Worker, count: int) -> None:
    await wait_until(lambda: worker.health()["stuck"] == count, 10, f"{count} stuck handlers")


async def test_a_plain_function_that_ignores_its_timeout_keeps_its_slot_until_it_returns(
    sealed_store: Store,
) -> None:
    release = threading.Event()
    told: list[bool] = []

    def deaf(ctx: Context) -> None:
        release.wait(30)
        told.append(ctx.cancelled)

    def fine() -> int:
        return 1

    shop = Shop(sealed_store, deaf, fine)
    job_id = await shop.enqueue(deaf, policy=BRIEF)
    async with shop.worker({"default": 3}) as worker:
        await stuck(worker, 1)
        ended = await shop.until(job_id, lambda job: bool(job.errors))  # the end is written later
        assert ended.errors[0].kind == "TimedOut"
        [event] = shop.reported("job.handler_stuck")
        assert (event.fields["stuck"], event.fields["slots"]) == (1, 3)
        others = [await shop.enqueue(fine) for _ in range(20)]
        await worker.drain()
        assert {(await shop.get(other)).state for other in others} == {JobState.SUCCEEDED}
        release.set()
        await stuck(worker, 0)
    assert told == [True]
    assert (await shop.get(job_id)).state is JobState.FAILED


async def test_a_timed_out_plain_function_and_its_retries_never_run_on_more_than_the_slots(
    live_store: Store,
) -> None:
    """Five attempts of one job ran at once on two slots, each beside the ones before it."""
    release = threading.Event()
    running: list[int] = []
    most: list[int] = []

    def deaf() -> None:
        running.append(1)
        most.append(len(running))
        release.wait(30)
        running.pop()

    shop = Shop(live_store, deaf)
    await shop.enqueue(deaf, policy=RETRIED)
    async with shop.worker({"default": 2}, stuck_share=1.0) as worker:
        with pytest.raises(SlotsLost):
            async with asyncio.timeout(20):
                await worker.drain()
        release.set()
    assert max(most) == 2


async def test_a_coroutine_that_swallows_its_cancellation_is_given_up_and_shown(
    live_store: Store,
) -> None:
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await asyncio.wait_for(release.wait(), 60)
            except asyncio.CancelledError:
                continue

    shop = Shop(live_store, stubborn)
    job_id = await shop.enqueue(stubborn, policy=BRIEF)
    async with shop.worker({"default": 3}, patience=0.2) as worker:
        await stuck(worker, 1)
        job = await shop.until(job_id, lambda job: job.ended)
        assert job.errors[0].kind == "TimedOut"
        assert worker.health()["running"] == 0
        release.set()
        await stuck(worker, 0)
    assert len(shop.reported("job.stuck_handler_returned")) == 1


async def test_lost_attempts_whose_handlers_return_at_once_cost_no_worker(
    live_store: Store,
) -> None:
    """A process that was stopped for a while is told of many lost attempts in one beat."""
    release = threading.Event()

    def slow() -> None:
        release.wait(30)

    shop = Shop(live_store, slow)
    ids = [await shop.enqueue(slow) for _ in range(3)]
    async with shop.worker({"default": 4}, lease=0.6, patience=1.0) as worker:
        await wait_until(lambda: worker.health()["running"] == 3, 10, "all of them run")
        lost = [decide(live, TimedOut(1.0)) for live in await live_store.jobs.live(ids)]
        await live_store.jobs.finish(lost)
        await stuck(worker, 3)
        release.set()
        await stuck(worker, 0)
        await asyncio.sleep(1.2)
        assert shop.reported("worker.slots_lost") == []


async def test_slots_lost_to_stuck_handlers_are_listed_examined_and_explained(
    live_store: Store,
) -> None:
    release = threading.Event()

    def deaf() -> None:
        release.wait(30)

    shop = Shop(live_store, deaf)
    await shop.enqueue(deaf, policy=BRIEF)
    async with shop.worker({"default": 1}, stuck_share=1.0, lease=0.6) as worker:
        worker.request_stop = lambda *, now=False: None  # type: ignore[method-assign]  # stay

        async def shown() -> bool:
            return [one.facts.stuck for one in await live_store.workers.find()] == [{"default": 1}]

        await wait_until(shown, 10, "a beat has told the store")
        waiting = await shop.get(await shop.enqueue(deaf))
        facts = [reason.fact for reason in (await explain(live_store, waiting)).reasons]
        assert any("1 more are lost to stuck handlers" in fact for fact in facts), facts
        workers = await live_store.workers.find()
        findings = check_workers(Workforce(await live_store.now(), [], workers))
        assert any("has lost 1 of 1 slots of queue 'default'" in one.saw for one in findings)
        release.set()


async def test_a_worker_that_lost_half_of_a_queues_slots_drains_and_leaves(
    live_store: Store,
) -> None:
    release, healthy = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await asyncio.wait_for(release.wait(), 60)
            except asyncio.CancelledError:
                continue

    async def slow() -> str:
        await healthy.wait()
        return "done"

    shop = Shop(live_store, stubborn, slow)
    good = await shop.enqueue(slow)
    bad = [await shop.enqueue(stubborn, policy=BRIEF) for _ in range(2)]
    worker = shop.new_worker({"default": 4}, patience=0.2, grace=10)
    run = asyncio.create_task(worker.run())
    await wait_until(lambda: bool(shop.reported("worker.slots_lost")), 10, "it gives up")
    waiting = await shop.enqueue(slow)
    healthy.set()
    with pytest.raises(SlotsLost, match=r"queue 'default': .* hold 2 of 4 slots or threads"):
        async with asyncio.timeout(10):
            await run
    release.set()
    assert [(await shop.get(one)).state for one in bad] == [JobState.FAILED] * 2
    assert (await shop.get(good)).result == "done"
    assert (await shop.get(waiting)).state is JobState.READY


async def test_an_embedded_worker_that_lost_its_slots_leaves_by_itself(live_store: Store) -> None:
    """Nobody waits in `run` there: it went on beating and claimed nothing."""
    release = threading.Event()

    def deaf() -> None:
        release.wait(30)

    shop = Shop(live_store, deaf)
    await shop.enqueue(deaf, policy=BRIEF)
    async with shop.worker({"default": 1}, patience=0.2) as worker:
        await wait_until(lambda: bool(shop.reported("worker.stopped")), 10, "it has left")
        assert worker.health()["ready"] is False
        assert await live_store.workers.find() == []
        release.set()


async def test_a_worker_whose_threads_are_stuck_leaves_though_slots_are_free(
    live_store: Store,
) -> None:
    release = threading.Event()

    def deaf() -> None:
        release.wait(30)

    shop = Shop(live_store, deaf)
    for _ in range(2):
        await shop.enqueue(deaf, policy=BRIEF)
    worker = shop.new_worker({"default": 50}, threads=2, patience=0.2, stuck_share=1.0)
    with pytest.raises(SlotsLost, match="2 of 2 slots or threads"):
        async with asyncio.timeout(10):
            await worker.run()
    release.set()
