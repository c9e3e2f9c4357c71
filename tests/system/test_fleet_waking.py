"""One job does not make every idle worker of a fleet claim."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from holdfast.store.contract.store import Store
from tests.support.flaky import FlakyStore, Line
from tests.support.waiting import wait_until
from tests.support.working import Shop

WORKERS = 40
LEARNING, JOBS = 30, 15


async def test_one_enqueue_wakes_a_few_of_many_idle_workers(live_store: Store) -> None:
    done = 0

    async def note() -> None:
        nonlocal done
        done += 1

    line = Line()
    shop = Shop(FlakyStore(live_store, line), note)
    async with AsyncExitStack() as stack:
        for _ in range(WORKERS):
            # They share one store, whose polls tell all of them: hence seldom.
            await stack.enter_async_context(shop.worker(poll=2))
        await wait_until(lambda: line.calls.count("poll") >= WORKERS, 10, "the fleet is known")
        for number in range(LEARNING + JOBS):
            if number == LEARNING:
                line.hold.add("poll")  # the longer a machine takes for a job, the more polls see it
                await asyncio.sleep(0.1)
                line.calls.clear()
            await shop.enqueue(note)
            await wait_until(lambda n=number: done > n, 5, "the job ran", look_every=0.002)
        await asyncio.sleep(0.05)
    assert line.calls.count("claim") / JOBS < WORKERS / 2
