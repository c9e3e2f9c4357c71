"""Ends that a worker decided in time and could not write yet: no sweep by time overtakes them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.clock import ManualClock
from holdfast.job.policy import Policy
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from holdfast.reconcile.attempt_timeout import AttemptTimeoutReconciler
from holdfast.reconcile.deadline import DeadlineReconciler
from holdfast.store.contract.store import Store
from tests.support.flaky import FlakyStore, Line
from tests.support.reconcile_scene import made
from tests.support.waiting import wait_until
from tests.support.working import Shop

ONCE_WITHIN = Policy(retry=Retry.never(), timeout=10.0)


@pytest.mark.parametrize(
    ("mender", "limit"),
    [
        (DeadlineReconciler, {"deadline_in": 10.0}),
        (AttemptTimeoutReconciler, {"policy": ONCE_WITHIN}),
    ],
    ids=["deadline", "timeout"],
)
async def test_what_returned_in_time_while_the_store_was_away_stands(
    store: Store, clock: ManualClock, mender: type[Any], limit: dict[str, Any]
) -> None:
    line, go_on, started = Line(), asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        started.set()
        await go_on.wait()
        return "in time"

    shop = Shop(FlakyStore(store, line), slow)
    job_id = await shop.enqueue(slow, **limit)
    async with shop.worker(lease=30) as worker:
        await started.wait()
        line.cut = True
        go_on.set()
        await wait_until(lambda: worker.health()["unwritten"] == 1, 5, "the end is kept")
        clock.advance(16)  # past both limits and the slack; the lease lasts
        sweep = made(mender, store)
        assert (await sweep.run_once()).found == 0
        line.cut = False
        job = await shop.until(job_id, lambda job: job.ended)
        assert (await sweep.run_once()).found == 0
    assert (job.state, job.result, job.attempts) == (JobState.SUCCEEDED, "in time", 1)


async def test_a_live_workers_job_is_ended_by_time_once_the_worker_has_had_its_chance(
    store: Store, clock: ManualClock
) -> None:
    """The net below a worker that does not keep time by itself: here its clock stands still."""
    go_on, started = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        started.set()
        await go_on.wait()

    shop = Shop(store, slow)
    job_id = await shop.enqueue(slow, deadline_in=3600.0)
    async with shop.worker(lease=0.6):
        await started.wait()
        clock.advance(3601)
        deadline = made(DeadlineReconciler, store)

        async def ended() -> bool:
            await deadline.run_once()
            return (await shop.get(job_id)).ended

        await wait_until(ended, 10, "the worker has beaten twice", look_every=0.05)
        assert (await shop.get(job_id)).state is JobState.EXPIRED
        go_on.set()
