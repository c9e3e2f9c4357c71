"""Who listens to a worker hears how each attempt ended, and what the store said to it."""

from __future__ import annotations

from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.job.transition import Transition
from holdfast.store.contract.records import Verdict
from holdfast.store.contract.store import Store
from holdfast.worker.attempt import Attempt
from holdfast.worker.options import WorkerOptions
from holdfast.worker.worker import Worker
from tests.support.working import ONCE, Shop


async def test_a_listener_hears_of_every_attempt_with_its_job_and_verdict(
    live_store: Store,
) -> None:
    async def fine() -> None: ...

    async def broken() -> None:
        raise ValueError("boom")

    heard: dict[JobId, tuple[str, str, JobState, bool]] = {}

    def listen(attempt: Attempt | None, transition: Transition, verdict: Verdict) -> None:
        assert attempt is not None
        facts = (attempt.job.task, attempt.job.queue, transition.to, verdict.accepted)
        heard[transition.id] = facts

    shop = Shop(live_store, fine, broken)
    good, bad = await shop.enqueue(fine), await shop.enqueue(broken, policy=ONCE)
    options = WorkerOptions({"default": 2})
    async with Worker(live_store, shop.registry, options, shop.events, listeners=[listen]) as one:
        await one.drain()
    assert heard == {
        good: ("fine", "default", JobState.SUCCEEDED, True),
        bad: ("broken", "default", JobState.FAILED, True),
    }
