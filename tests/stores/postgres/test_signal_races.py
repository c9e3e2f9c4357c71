"""A suspension and a signal at once: neither misses the other, whoever comes first.

The order is forced by locks, in transactions that really overlap.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from holdfast.clock import ManualClock
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.record import Claimed
from holdfast.job.signal import NewSignal, Sent, Signal
from holdfast.job.state import JobState
from holdfast.job.step import StepRecord
from tests.conformance.builders import RETURNED, Scene
from tests.conformance.signalling import LIMITS, kept_of, send, signals_of, take, wait, wait_of
from tests.stores.postgres.shared import connected, opened, until_blocked
from tests.stores.postgres.test_flow_races import doing, locked_table


@pytest.fixture
async def scene(url: str, clock: ManualClock) -> AsyncIterator[Scene]:
    async with opened(url, clock=clock) as store:
        yield await Scene.on(store, clock)


async def test_a_signal_that_meets_an_open_suspension_wakes_the_job(url: str, scene: Scene) -> None:
    claimed = await scene.running()
    async with connected(url) as mine:
        suspending = mine.transaction()
        await suspending.start()
        move = wait_of(claimed)
        [verdict] = await scene.store.jobs.within(mine, lambda jobs: jobs.finish([move]))
        assert verdict.state is JobState.SUSPENDED
        sending = asyncio.create_task(send(scene, claimed.id))
        await until_blocked(url)
        await suspending.commit()
        assert await sending is Sent.WOKE
    assert await scene.state(claimed.id) is JobState.READY


async def test_a_suspension_that_meets_an_open_signal_goes_on(url: str, scene: Scene) -> None:
    claimed = await scene.running()
    async with locked_table(url, "signal"):
        sending = asyncio.create_task(send(scene, claimed.id))
        await until_blocked(url)  # it has locked the lease, and cannot write its signal yet
        suspending = asyncio.create_task(wait(scene, claimed))
        await until_blocked(url, 2)
    assert await sending is Sent.KEPT
    assert (await suspending).state is JobState.READY
    assert await kept_of(scene, claimed.id) == ["paid"]


async def test_a_signal_that_meets_an_open_resume_finds_the_job_where_it_went(
    url: str, scene: Scene
) -> None:
    claimed = await scene.running()
    assert (await wait(scene, claimed)).state is JobState.SUSPENDED
    async with connected(url) as mine:
        resuming = mine.transaction()
        await resuming.start()
        await mine.execute(
            "with gone as (delete from holdfast.suspended where job_id = $1 returning *)"
            " insert into holdfast.ready (job_id, queue, priority, task, fence, ties)"
            " select job_id, queue, priority, task, fence, ties from gone",
            claimed.id,
        )
        sending = asyncio.create_task(send(scene, claimed.id))
        await until_blocked(url)
        await resuming.commit()
        assert await sending is Sent.KEPT
    assert await scene.state(claimed.id) is JobState.READY
    assert await kept_of(scene, claimed.id) == ["paid"]


async def test_two_signals_at_once_wake_a_job_once(url: str, scene: Scene) -> None:
    claimed = await scene.running()
    assert (await wait(scene, claimed)).state is JobState.SUSPENDED
    async with locked_table(url, "signal"):
        both = [asyncio.create_task(send(scene, claimed.id, key=key)) for key in ("a", "b")]
        await until_blocked(url, 2)
    assert sorted(await asyncio.gather(*both)) == [Sent.KEPT, Sent.WOKE]
    assert await kept_of(scene, claimed.id) == ["paid", "paid"]


async def test_a_signal_that_meets_a_claim_is_kept(url: str, scene: Scene) -> None:
    """A claim passes a locked job by, and a signal finds the job where it went."""
    job = await scene.enqueue()
    async with locked_table(url, "signal"):
        sending = asyncio.create_task(send(scene, job))
        await until_blocked(url)
        assert await scene.claim(1) == []
    assert await sending is Sent.KEPT
    assert (await scene.claim_one()).id == job


async def test_a_signal_that_meets_the_end_of_the_job_is_refused(url: str, scene: Scene) -> None:
    claimed = await scene.running()
    async with connected(url) as mine:
        ending = mine.transaction()
        await ending.start()
        move = decide(claimed, RETURNED)
        await scene.store.jobs.within(mine, lambda jobs: jobs.finish([move]))
        sending = asyncio.create_task(send(scene, claimed.id))
        await until_blocked(url)
        await ending.commit()
        assert await sending is Sent.ENDED
    assert await signals_of(scene, claimed.id) == []


async def test_two_who_send_with_one_key_keep_one_signal(url: str, scene: Scene) -> None:
    claimed = await scene.running()
    async with locked_table(url, "signal"):
        both = [asyncio.create_task(send(scene, claimed.id)) for _ in range(2)]
        await until_blocked(url, 2)
    assert sorted(await asyncio.gather(*both)) == [Sent.DUPLICATE, Sent.KEPT]
    assert len(await signals_of(scene, claimed.id)) == 1


async def test_a_zombie_that_meets_its_reclaim_takes_no_signal(url: str, scene: Scene) -> None:
    claimed = await scene.running()
    await send(scene, claimed.id)
    [signal] = await signals_of(scene, claimed.id)
    async with connected(url) as mine:
        reclaiming = mine.transaction()
        await reclaiming.start()
        await mine.execute(
            "update holdfast.lease set fence = fence + 1 where job_id = $1", claimed.id
        )
        async with doing(url, refused(scene, claimed, signal)):
            await reclaiming.commit()
    assert await kept_of(scene, claimed.id) == ["paid"]


async def vote(scene: Scene, job: JobId) -> Sent:
    signal = NewSignal(job, "vote", "true", "ann", before="closing")
    [sent] = await scene.store.signals.send([signal], LIMITS)
    return sent


async def test_a_vote_that_meets_the_open_end_of_its_question_is_late(
    url: str, scene: Scene
) -> None:
    claimed = await scene.running()
    async with connected(url) as mine:
        closing = mine.transaction()
        await closing.start()
        await mine.execute(
            "select from holdfast.lease where job_id = $1 for no key update", claimed.id
        )
        await mine.execute(
            "insert into holdfast.step (job_id, name, n, fence, tries, result, at)"
            " values ($1, 'closing', 1, 1, 1, 'true', now())",
            claimed.id,
        )
        voting = asyncio.create_task(vote(scene, claimed.id))
        await until_blocked(url)
        await closing.commit()
        assert await voting is Sent.LATE
    assert await signals_of(scene, claimed.id) == []


async def test_the_end_of_a_question_that_meets_an_open_vote_finds_it(
    url: str, scene: Scene
) -> None:
    """The worker looks after it has closed the question, so an accepted vote is counted."""
    claimed = await scene.running()
    record = StepRecord(claimed.id, claimed.fence, "closing", 1, result="true")
    async with locked_table(url, "signal"):
        voting = asyncio.create_task(vote(scene, claimed.id))
        await until_blocked(url)  # it has locked the lease, and cannot write its signal yet
        closing = asyncio.create_task(scene.store.steps.record([record]))
        await until_blocked(url, 2)
    assert (await voting, await closing) == (Sent.KEPT, [True])
    assert await kept_of(scene, claimed.id) == ["vote"]


async def refused(scene: Scene, claimed: Claimed, signal: Signal) -> None:
    assert not await take(scene, claimed, signal)
