"""Errors are counted by adding rows: no transaction that ends a job waits for another one."""

from __future__ import annotations

import asyncio

from holdfast.clock import ManualClock
from holdfast.job.ends import Raised
from holdfast.job.outcome import decide
from holdfast.store.contract.failures import SAMPLE_SECONDS
from tests.conformance.builders import Scene
from tests.stores.postgres.shared import connected
from tests.support.backends import opened

NO_ANSWER = Raised("ConnectionError", "no answer", "Traceback", final=True)


async def test_an_open_transaction_that_counts_an_error_keeps_nobody_waiting(url: str) -> None:
    clock = ManualClock()
    async with opened(url, clock) as store, connected(url) as own:
        scene = await Scene.on(store, clock)
        await scene.enqueue_many(3)
        first, second, third = await scene.claim(3)

        async def counted() -> list[tuple[int, int]]:
            return [(one.count, one.dead) for one in await store.failures.find()]

        async with own.transaction():
            move = decide(first, NO_ANSWER)
            await store.jobs.within(own, lambda jobs: jobs.finish([move]))
            async with asyncio.timeout(5):
                await scene.finish(second, NO_ANSWER)
                assert await store.telemetry.fold(100) > 0
                [failure] = await store.failures.find()
                await store.failures.mute([failure.fingerprint], scene.after(60))
                await scene.finish(third, NO_ANSWER)
                assert await counted() == [(2, 2)]
        assert await counted() == [(3, 3)]
        await store.telemetry.fold(100)
        assert await counted() == [(3, 3)]


async def test_long_texts_are_written_once_a_minute(url: str) -> None:
    clock = ManualClock()
    async with opened(url, clock) as store, connected(url) as own:
        scene = await Scene.on(store, clock)
        texts = []
        for wait in (0.0, SAMPLE_SECONDS, 1.0):
            scene.clock.advance(wait)
            await scene.ended(NO_ANSWER)
            texts.append(await own.fetchval("select count(message) from holdfast.failing"))
            await store.telemetry.fold(100)
        assert texts == [1, 0, 1]


async def test_an_error_whose_transaction_is_rolled_back_was_never_there(url: str) -> None:
    clock = ManualClock()
    async with opened(url, clock) as store, connected(url) as own:
        scene = await Scene.on(store, clock)
        job = await scene.running()
        transaction = own.transaction()
        await transaction.start()
        await store.jobs.within(own, lambda jobs: jobs.finish([decide(job, NO_ANSWER)]))
        await transaction.rollback()
        assert await store.failures.find() == []
