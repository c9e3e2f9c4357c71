"""Jobs.finish of jobs with limits: whatever ends a lease gives back what it counted, once."""

from __future__ import annotations

import pytest

from holdfast.job.ends import (
    Cancelled,
    DeadlinePassed,
    End,
    HandedBack,
    PutOff,
    Reclaimed,
    Skipped,
    Snoozed,
    TimedOut,
    WasSuspended,
    WasThrottled,
    WorkerLost,
)
from holdfast.job.outcome import decide
from holdfast.job.record import Claimed
from holdfast.job.state import JobState
from holdfast.limits.model import Concurrency
from tests.conformance.builders import FAILED, QUEUE, RAISED, RETURNED, Scene
from tests.conformance.limiting import (
    begun,
    bucket,
    in_use,
    limited,
    nothing_is_wrong,
    of,
    through,
)

ENDS: list[End] = [
    RETURNED,
    RAISED,
    FAILED,
    TimedOut(1.0),
    WorkerLost("gone"),
    Snoozed(60.0),
    WasThrottled(5.0, "slow"),
    WasThrottled(5.0, "slow", "tenant"),
    WasSuspended(60.0),
    WasSuspended(None),
    HandedBack(),
    PutOff(5.0, "unreadable"),
    Cancelled(),
    DeadlinePassed(),
    Skipped("nothing to do"),
]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: type(end).__name__)
async def test_every_end_gives_back_what_the_claim_counted(scene: Scene, end: End) -> None:
    await limited(scene, tenant=1, host=4)
    [job] = await begun(scene, 1, "tenant:a", "host:x")
    assert (await scene.finish(job, end)).accepted
    assert [await in_use(scene, name) for name in ("tenant:a", "host:x")] == [0, 0]
    await nothing_is_wrong(scene)


async def test_a_freed_permit_lets_the_next_of_the_line_begin(scene: Scene) -> None:
    await limited(scene, tenant=1)
    first, second = await scene.enqueue_many(2, **through("tenant:a"))
    [held] = await scene.claim(10)
    assert await scene.claim(10) == []
    await scene.finish(held)
    assert (held.id, of(await scene.claim(10))) == (first, [second])


async def test_a_success_among_plain_ones_gives_back_too(scene: Scene) -> None:
    await limited(scene, tenant=1)
    [job] = await begun(scene, 1, "tenant:a")
    plain = await scene.running()
    verdicts = await scene.store.jobs.finish([decide(plain, RETURNED), decide(job, RETURNED)])
    assert [verdict.accepted for verdict in verdicts] == [True, True]
    assert await scene.states([plain.id, job.id]) == [JobState.SUCCEEDED] * 2
    assert await in_use(scene, "tenant:a") == 0


async def test_a_refused_end_gives_nothing_back(scene: Scene) -> None:
    """A zombie's end, a repeated end, and the second of two ends in one batch."""
    await limited(scene, tenant=5)
    [job] = await begun(scene, 1, "tenant:a")
    await scene.finish(job, HandedBack())
    [again] = await scene.claim(10)
    assert again.id == job.id
    assert not (await scene.finish(job, RETURNED)).accepted
    assert await in_use(scene, "tenant:a") == 1
    verdicts = await scene.store.jobs.finish([decide(again, RETURNED), decide(again, RAISED)])
    assert [verdict.accepted for verdict in verdicts] == [True, False]
    assert not (await scene.finish(again, RETURNED)).accepted
    assert await in_use(scene, "tenant:a") == 0
    await nothing_is_wrong(scene)


async def test_a_dead_workers_permits_come_back_with_its_jobs(scene: Scene) -> None:
    await limited(scene, tenant=1)
    worker = await scene.hire(lease=30.0)
    job = await scene.enqueue(**through("tenant:a"))
    [held] = await scene.claim(1, worker=worker)
    await scene.enqueue(**through("tenant:a"))
    scene.clock.advance(31)
    assert await scene.claim(10) == []
    [lapsed] = await scene.store.jobs.lapsed_leases(10)
    assert (await scene.reclaim(lapsed, Reclaimed("lapsed", suspected=False))).accepted
    assert not (await scene.finish(held, RETURNED)).accepted
    assert await in_use(scene, "tenant:a") == 0
    assert of(await scene.claim(1)) == [job]
    await nothing_is_wrong(scene)


async def test_a_retried_job_passes_its_buckets_again(scene: Scene) -> None:
    await limited(scene, tenant=1)
    [job] = await begun(scene, 1, "tenant:a")
    await scene.finish(job, RAISED)
    [other] = await begun(scene, 1, "tenant:a")
    scene.clock.advance(10)
    await scene.store.jobs.promote_due(10)
    assert await scene.claim(10) == []
    await scene.finish(other)
    [again] = await scene.claim(10)
    assert (again.id, again.attempt) == (job.id, 2)


async def test_a_requeued_job_passes_its_buckets_again(scene: Scene) -> None:
    await limited(scene, tenant=1)
    [job] = await begun(scene, 1, "tenant:a")
    await scene.finish(job, FAILED)
    await begun(scene, 1, "tenant:a")
    await scene.store.jobs.requeue([job.id])
    assert await scene.claim(10) == []


async def test_a_cancel_that_was_asked_for_gives_back(scene: Scene) -> None:
    await limited(scene, tenant=1)
    [job] = await begun(scene, 1, "tenant:a")
    await scene.store.jobs.request_cancel([job.id])
    await scene.finish(job, RAISED)
    assert await scene.state(job.id) is JobState.CANCELLED
    assert await in_use(scene, "tenant:a") == 0


async def test_removing_a_job_leaves_nothing_of_its_limits(scene: Scene) -> None:
    await limited(scene, tenant=1)
    [job] = await begun(scene, 1, "tenant:a")
    await scene.finish(job)
    await scene.store.jobs.delete([job.id])
    assert await scene.store.limits.of([job.id]) == {}


async def test_a_throttle_shuts_the_bucket_and_not_the_queue(scene: Scene) -> None:
    await limited(scene, host=5)
    [job] = await begun(scene, 1, "host:x")
    waiting = await scene.enqueue(**through("host:x"))
    await scene.finish(job, WasThrottled(30.0, "429", "host"))
    other, plain = await scene.enqueue(**through("host:y")), await scene.enqueue()
    assert set(of(await scene.claim(10))) == {other, plain}
    [queue] = await scene.store.queues.find([QUEUE])
    assert queue.cooling_for is None
    assert (await bucket(scene, "host:x")).drained_for == 30.0
    assert await scene.store.limits.opens_in() == 30.0
    scene.clock.advance(29)
    assert await scene.claim(10) == []
    scene.clock.advance(1)
    await scene.store.jobs.promote_due(10)
    assert set(of(await scene.claim(10))) == {waiting, job.id}


async def test_a_throttle_shuts_the_bucket_without_a_key_for_a_job_that_passes_none(
    scene: Scene,
) -> None:
    await limited(scene, host=5)
    await scene.enqueue(**through("host:"))
    await scene.finish(await scene.running(queue="plain"), WasThrottled(30.0, "429", "host"))
    assert await scene.claim(10) == []


async def test_a_throttle_of_a_limit_that_is_not_defined_cools_the_queue(scene: Scene) -> None:
    await limited(scene, host=5)
    await scene.enqueue(**through("host:"))
    await scene.finish(await scene.running(queue="plain"), WasThrottled(30.0, "429", "nosuch"))
    [queue] = await scene.store.queues.find(["plain"])
    assert queue.cooling_for == pytest.approx(30.0, abs=1.0)
    assert await scene.store.limits.buckets("nosuch", 10) == []
    assert len(await scene.claim(10)) == 1, "other queues go on"


async def test_repeated_throttles_shut_a_bucket_for_longer(scene: Scene) -> None:
    """As they do a queue: the first of a window doubles the wait, siblings only extend it."""
    await limited(scene, host=5)
    first, sibling = await begun(scene, 2, "host:x")
    await scene.finish(first, WasThrottled(0.0, "429", "host"))
    await scene.finish(sibling, WasThrottled(0.5, "429", "host"))
    assert (await bucket(scene, "host:x")).drained_for == 1.0
    scene.clock.advance(1)
    await scene.store.jobs.promote_due(10)
    [again, _] = await scene.claim(2)
    await scene.finish(again, WasThrottled(0.0, "429", "host"))
    assert (await bucket(scene, "host:x")).drained_for == 2.0


async def test_buckets_that_are_alike_count_each_for_itself(scene: Scene) -> None:
    """New buckets, and buckets that were last counted together, look the same. One has an amount of
    its own, and a line waits there."""
    await limited(scene, tenant=9)
    await scene.store.limits.override("tenant", "d", Concurrency(1))
    held = await _claimed_of(scene, a=1, b=1, c=3, d=2)
    assert await _counts(scene) == {"a": 1, "b": 1, "c": 3, "d": 1}
    done = [held["a"][0], *held["c"][:2]]
    await scene.store.jobs.finish([decide(job, RETURNED) for job in done])
    assert await _counts(scene) == {"a": 0, "b": 1, "c": 1, "d": 1}
    await nothing_is_wrong(scene)
    await _claimed_of(scene, a=2, b=1, c=1)
    assert await _counts(scene) == {"a": 2, "b": 2, "c": 2, "d": 1}
    await scene.store.jobs.finish([decide(held[key][0], RETURNED) for key in "bd"])
    assert await _counts(scene) == {"a": 2, "b": 1, "c": 2, "d": 0}
    [other] = await scene.claim(10)
    assert other.id not in of([job for jobs in held.values() for job in jobs])
    assert await _counts(scene) == {"a": 2, "b": 1, "c": 2, "d": 1}
    await nothing_is_wrong(scene)


async def _claimed_of(scene: Scene, **jobs: int) -> dict[str, list[Claimed]]:
    """Enqueue so many jobs of each key, and claim what may begin, at once."""
    keys = {
        job_id: key
        for key, count in jobs.items()
        for job_id in await scene.enqueue_many(count, **through(f"tenant:{key}"))
    }
    held: dict[str, list[Claimed]] = {}
    for job in await scene.claim(20):
        held.setdefault(keys[job.id], []).append(job)
    return held


async def _counts(scene: Scene) -> dict[str, int]:
    return {key: await in_use(scene, f"tenant:{key}") for key in "abcd"}
