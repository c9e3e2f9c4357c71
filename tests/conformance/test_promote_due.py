"""Jobs.promote_due: what is due becomes ready, earliest first, and nothing else does."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.job.ends import WasSuspended
from holdfast.job.state import JobState
from holdfast.store.contract.records import Promoted
from tests.conformance.builders import QUEUE, RAISED, STEADY, Scene, ids
from tests.support.backends import siblings


async def test_an_idle_store_has_nothing_to_promote(scene: Scene) -> None:
    assert await scene.store.jobs.promote_due(10) == Promoted(0, (), None)


async def test_a_job_is_promoted_when_it_is_due_and_not_before(scene: Scene) -> None:
    job = await scene.enqueue(delay=60.0)
    scene.clock.advance(59)
    assert (await scene.store.jobs.promote_due(10)).count == 0
    scene.clock.advance(1)
    assert await scene.store.jobs.promote_due(10) == Promoted(1, (QUEUE,), None)
    assert await scene.state(job) is JobState.READY


async def test_it_says_when_the_next_is_due(scene: Scene) -> None:
    await scene.enqueue(delay=90.0)
    await scene.enqueue(delay=60.0)
    scene.clock.advance(10)
    assert (await scene.store.jobs.promote_due(10)).next_due_in == pytest.approx(50)
    scene.clock.advance(50)
    assert (await scene.store.jobs.promote_due(10)).next_due_in == pytest.approx(30)


async def test_it_says_so_when_more_is_due_already(scene: Scene) -> None:
    await scene.enqueue_many(5, delay=1.0)
    scene.clock.advance(10)
    promoted = await scene.store.jobs.promote_due(3)
    assert promoted.count == 3
    assert promoted.next_due_in is not None
    assert promoted.next_due_in <= 0


async def test_sleepers_and_delayed_jobs_line_up_in_one_order_of_their_times(scene: Scene) -> None:
    sleeper = await scene.ended(WasSuspended(5.0))
    delayed = [await scene.enqueue(delay=seconds) for seconds in (4.0, 6.0)]
    scene.clock.advance(10)
    assert (await scene.store.jobs.promote_due(10)).count == 3
    assert ids(await scene.claim(3)) == [delayed[0], sleeper.id, delayed[1]]


async def test_the_earliest_due_is_promoted_first(scene: Scene) -> None:
    late, early = await scene.enqueue(delay=60.0), await scene.enqueue(delay=30.0)
    scene.clock.advance(100)
    await scene.store.jobs.promote_due(1)
    assert await scene.states([early, late]) == [JobState.READY, JobState.SCHEDULED]
    await scene.store.jobs.promote_due(1)
    assert await scene.line() == [early, late]


async def test_jobs_promoted_together_line_up_by_due_time(scene: Scene) -> None:
    delays = [50.0, 10.0, 40.0, 20.0, 30.0]
    jobs = [await scene.enqueue(delay=delay) for delay in delays]
    scene.clock.advance(60)
    await scene.store.jobs.promote_due(10)
    assert await scene.line() == [job for _, job in sorted(zip(delays, jobs, strict=True))]


async def test_a_promoted_job_goes_behind_those_that_wait(scene: Scene) -> None:
    promoted = await scene.enqueue(delay=1.0)
    waiting = await scene.enqueue()
    scene.clock.advance(2)
    await scene.store.jobs.promote_due(10)
    assert await scene.line() == [waiting, promoted]


async def test_a_promoted_job_keeps_its_priority(scene: Scene) -> None:
    urgent = await scene.enqueue(delay=1.0, priority=-1)
    waiting = await scene.enqueue()
    scene.clock.advance(2)
    await scene.store.jobs.promote_due(10)
    assert await scene.line() == [urgent, waiting]


async def test_it_names_every_queue_it_served(scene: Scene) -> None:
    for queue in ("a", "b", "a"):
        await scene.enqueue(queue=queue, delay=1.0)
    scene.clock.advance(2)
    promoted = await scene.store.jobs.promote_due(10)
    assert (promoted.count, sorted(promoted.queues)) == (3, ["a", "b"])


async def test_a_suspended_job_wakes_when_its_timer_ends(scene: Scene) -> None:
    claimed = await scene.ended(WasSuspended(30.0))
    assert (await scene.store.jobs.promote_due(10)).next_due_in == pytest.approx(30)
    scene.clock.advance(30)
    assert (await scene.store.jobs.promote_due(10)).count == 1
    again = await scene.claim_one()
    assert (again.id, again.attempt) == (claimed.id, claimed.attempt)


async def test_a_job_suspended_without_a_timer_sleeps_on(scene: Scene) -> None:
    claimed = await scene.ended(WasSuspended(None))
    scene.clock.advance(1e8)
    assert await scene.store.jobs.promote_due(10) == Promoted(0, (), None)
    assert await scene.state(claimed.id) is JobState.SUSPENDED


async def test_scheduled_and_suspended_share_one_limit(scene: Scene) -> None:
    for _ in range(3):
        await scene.ended(WasSuspended(5.0))
    await scene.enqueue_many(3, delay=5.0)
    scene.clock.advance(6)
    counts = [(await scene.store.jobs.promote_due(4)).count for _ in range(3)]
    assert counts == [4, 2, 0]


async def test_a_retry_keeps_its_count_and_fence(scene: Scene) -> None:
    first = await scene.ended(RAISED)
    scene.clock.advance(STEADY.retry.base)
    await scene.store.jobs.promote_due(10)
    job = await scene.job(first.id)
    assert (job.state, job.attempts, job.fence) == (JobState.READY, 1, first.fence)
    assert job.due_at is None


async def test_many_promoters_promote_a_job_once(scene: Scene) -> None:
    jobs = await scene.enqueue_many(100, delay=1.0)
    scene.clock.advance(2)
    async with siblings(scene.store, 3) as others:
        promoted = await asyncio.gather(*(other.jobs.promote_due(200) for other in others))
    assert sum(one.count for one in promoted) == 100
    assert sorted(await scene.line()) == sorted(jobs)
