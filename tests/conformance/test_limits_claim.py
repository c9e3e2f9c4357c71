"""Jobs.claim of jobs with limits: who begins, who waits, in what order."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.job.ends import Cancelled, HandedBack, Released
from holdfast.job.passing import Passed
from holdfast.job.policy import Policy
from holdfast.job.state import JobState
from holdfast.job.ties import Tie
from tests.conformance.builders import QUEUE, RETURNED, Scene, ids
from tests.conformance.limiting import (
    begun,
    bucket,
    in_use,
    limited,
    nothing_is_wrong,
    of,
    through,
)
from tests.support.backends import siblings
from tests.support.flows import new_flow


async def test_no_more_jobs_begin_than_the_limit_allows(scene: Scene) -> None:
    await limited(scene, tenant=2)
    jobs = await scene.enqueue_many(5, **through("tenant:a"))
    assert of(await scene.claim(10)) == jobs[:2]
    assert await scene.claim(10) == []
    assert await in_use(scene, "tenant:a") == 2
    await nothing_is_wrong(scene)


async def test_a_claimed_job_with_limits_brings_all_that_an_attempt_needs(scene: Scene) -> None:
    await limited(scene, tenant=2)
    job = await scene.enqueue(
        priority=3, deadline_in=60.0, tags=("a",), policy=Policy(timeout=9), **through("tenant:a")
    )
    scene.clock.advance(1)
    claimed = await scene.claim_one()
    assert (claimed.id, claimed.priority, claimed.tags) == (job, 3, ("a",))
    assert (claimed.ready_at, claimed.claimed_at) == (scene.after(-1), scene.clock.now)
    assert claimed.deadline_at == scene.after(59)
    found = await scene.job(job)
    assert (found.state, found.worker_id) == (JobState.RUNNING, scene.worker)


async def test_each_key_has_a_bucket_of_its_own(scene: Scene) -> None:
    await limited(scene, tenant=1)
    first = await scene.enqueue_many(2, **through("tenant:a"))
    other = await scene.enqueue_many(2, **through("tenant:b"))
    assert set(of(await scene.claim(10))) == {first[0], other[0]}


async def test_a_full_bucket_holds_up_nobody_else(scene: Scene) -> None:
    await limited(scene, tenant=1)
    await scene.enqueue_many(50, **through("tenant:a"))
    plain = await scene.enqueue_many(3)
    other = await scene.enqueue(**through("tenant:b"))
    claimed = of(await scene.claim(5))
    assert {*plain, other} < set(claimed)
    assert len(claimed) == 5


async def test_several_limits_admit_all_or_none(scene: Scene) -> None:
    """A line that is full at one bucket takes nothing from the others."""
    await limited(scene, tenant=1, host=5)
    await begun(scene, 1, "tenant:a", "host:x")
    await scene.enqueue(**through("tenant:a", "host:x"))
    assert await scene.claim(10) == []
    assert await in_use(scene, "host:x") == 1
    other = await scene.enqueue(**through("tenant:b", "host:x"))
    assert of(await scene.claim(10)) == [other]
    assert await in_use(scene, "host:x") == 2
    await nothing_is_wrong(scene)


async def test_lines_that_share_a_bucket_share_its_room(scene: Scene) -> None:
    await limited(scene, tenant=3, all=4)
    for key in "abc":
        await scene.enqueue_many(5, **through(f"tenant:{key}", "all:"))
    claimed = await scene.claim(100)
    assert len(claimed) == 4
    assert await in_use(scene, "all:") == 4
    await nothing_is_wrong(scene)


async def test_lines_take_turns(scene: Scene) -> None:
    """One key with many jobs does not keep the others waiting."""
    await limited(scene, tenant=1000)
    await scene.enqueue_many(100, **through("tenant:heavy"))
    light = [await scene.enqueue(**through(f"tenant:{n}")) for n in range(5)]
    served: list[str] = []
    while not set(light) <= set(served):
        served += of(await scene.claim(8))
    assert len(served) <= 24


async def test_a_line_is_served_in_order_of_arrival(scene: Scene) -> None:
    await limited(scene, tenant=100)
    jobs = await scene.enqueue_many(20, **through("tenant:a"))
    served = []
    while claimed := await scene.claim(3):
        served += of(claimed)
    assert served == jobs


async def test_the_lower_priority_number_goes_first_with_limits_and_without(scene: Scene) -> None:
    await limited(scene, tenant=100)
    last = await scene.enqueue(priority=5, **through("tenant:a"))
    third = await scene.enqueue(priority=2)
    second = await scene.enqueue(priority=1, **through("tenant:a"))
    first = await scene.enqueue(priority=0)
    assert [of(await scene.claim(1))[0] for _ in range(4)] == [first, second, third, last]


async def test_jobs_with_limits_and_jobs_without_share_their_queue(scene: Scene) -> None:
    """Neither kind waits for the other to be done. (The first claim of a program may not know yet
    that there are both.)"""
    await limited(scene, tenant=100)
    plain = await scene.enqueue_many(30)
    with_limits = await scene.enqueue_many(30, **through("tenant:a"))
    await scene.claim(10)
    claimed = of(await scene.claim(10))
    assert (len(set(claimed) & set(plain)), len(set(claimed) & set(with_limits))) == (5, 5)
    assert len(await scene.claim(60)) == 40


async def test_a_job_of_an_unknown_limit_waits(scene: Scene) -> None:
    job = await scene.enqueue(**through("typo:a"))
    assert await scene.claim(10) == []
    found = await bucket(scene, "typo:a")
    assert (found.settings, found.opens_in) == (None, None)
    await limited(scene, typo=1)
    assert of(await scene.claim(10)) == [job]


async def test_a_limit_of_none_lets_none_begin(scene: Scene) -> None:
    await limited(scene, tenant=0)
    await scene.enqueue(**through("tenant:a"))
    assert await scene.claim(10) == []


async def test_jobs_of_tasks_that_a_worker_does_not_know_are_left_alone(scene: Scene) -> None:
    await limited(scene, tenant=2)
    await scene.enqueue("other", **through("tenant:a"))
    job = await scene.enqueue(**through("tenant:a"))
    assert of(await scene.claim(10)) == [job]
    assert len(await scene.claim(10, tasks=("other",))) == 1


async def test_a_paused_queue_gives_no_job_with_limits(scene: Scene) -> None:
    await limited(scene, tenant=2)
    job = await scene.enqueue(**through("tenant:a"))
    await scene.store.queues.pause([QUEUE])
    assert await scene.claim(10) == []
    await scene.store.queues.resume([QUEUE])
    assert of(await scene.claim(10)) == [job]


async def test_a_paused_task_gives_no_job_with_limits(scene: Scene) -> None:
    await limited(scene, tenant=2)
    await scene.enqueue(**through("tenant:a"))
    await scene.store.queues.pause(["*greet"])
    assert await scene.claim(10) == []


async def test_a_lapsed_worker_gets_no_job_with_limits(scene: Scene) -> None:
    await limited(scene, tenant=2)
    await scene.enqueue(**through("tenant:a"))
    lapsed = await scene.hire(lease=1.0)
    scene.clock.advance(2)
    assert await scene.claim(10, worker=lapsed) == []


async def test_what_is_claimed_beyond_the_free_slots_is_claimed_ahead(scene: Scene) -> None:
    await limited(scene, tenant=9)
    await scene.enqueue_many(3, **through("tenant:a"))
    assert [job.ahead for job in await scene.claim(3, free=2)] == [False, False, True]


@pytest.mark.parametrize("delay", [None, 60.0])
async def test_a_job_that_waits_elsewhere_counts_in_no_bucket(
    scene: Scene, delay: float | None
) -> None:
    await limited(scene, tenant=1)
    later = await scene.enqueue(blocked=delay is None, delay=delay, **through("tenant:a"))
    [job] = await begun(scene, 1, "tenant:a")
    scene.clock.advance(60)
    if delay is None:
        await scene.finish(await scene.live(later), Released(None))
    else:
        await scene.store.jobs.promote_due(10)
    assert await scene.claim(10) == []
    await scene.finish(job, RETURNED)
    assert of(await scene.claim(10)) == [later]


async def test_a_job_moved_to_another_queue_or_priority_keeps_its_limits(scene: Scene) -> None:
    await limited(scene, tenant=1)
    moved, changed = await scene.enqueue_many(2, **through("tenant:a"))
    await scene.store.jobs.move([moved], "other")
    await scene.store.jobs.reprioritise([changed], 7)
    [held] = await scene.claim(10)
    assert (held.id, held.priority) == (changed, 7)
    assert await scene.claim(10, "other") == []
    await scene.finish(held, RETURNED)
    assert of(await scene.claim(10, "other")) == [moved]


async def test_a_cancelled_job_leaves_its_line(scene: Scene) -> None:
    await limited(scene, tenant=5)
    jobs = await scene.enqueue_many(3, **through("tenant:a"))
    await scene.finish(await scene.live(jobs[0]), Cancelled())
    assert of(await scene.claim(10)) == jobs[1:]
    assert await scene.claim(10) == []
    assert (await scene.store.queues.waiting()) == []


async def test_who_is_held_up_by_no_running_job_is_counted(scene: Scene) -> None:
    await limited(scene, tenant=1, none=0)
    await begun(scene, 1, "tenant:a")
    await scene.enqueue_many(2, **through("tenant:a"))
    await scene.enqueue_many(3, **through("none:"))
    assert await scene.claim(10) == []
    held_up = scene.store.limits.held_up
    assert await held_up([QUEUE], ["greet"]) == 3
    assert await held_up(["other"], ["greet"]) == await held_up([QUEUE], ["other"]) == 0


async def test_claims_at_once_never_exceed_the_limit(scene: Scene) -> None:
    await limited(scene, tenant=3, all=7)
    for key in "abcde":
        await scene.enqueue_many(10, **through(f"tenant:{key}", "all:"))
    async with siblings(scene.store, 3) as others:
        scenes = [scene, *(scene.through(one) for one in others)]
        for _ in range(4):
            given = await asyncio.gather(*(one.claim(5) for one in scenes))
            held = [job for some in given for job in some]
            assert await in_use(scene, "all:") <= 7
            await nothing_is_wrong(scene)
            await asyncio.gather(*(scene.finish(job, HandedBack()) for job in held))
    assert await in_use(scene, "all:") == 0


async def test_a_queue_that_has_only_jobs_with_limits_is_waiting(scene: Scene) -> None:
    await limited(scene, tenant=0)
    await scene.enqueue(queue="slow", **through("tenant:a"))
    scene.clock.advance(5)
    assert list(await scene.store.queues.waiting()) == ["slow"]
    [found] = await scene.store.queues.find(["slow"])
    assert found.counts[JobState.READY] == 1
    assert found.oldest_ready_age == 5.0


async def test_ids_of_jobs_with_limits_are_inserted_once(scene: Scene) -> None:
    await limited(scene, tenant=5)
    jobs = await scene.enqueue_many(2, **through("tenant:a"))
    found = await scene.store.limits.of(jobs)
    assert found == dict.fromkeys(jobs, Passed("tenant:a"))
    assert await scene.store.limits.of([await scene.enqueue()]) == {}
    assert ids(await scene.claim(10)) != []


async def test_a_node_of_a_flow_passes_its_buckets_when_it_is_released(scene: Scene) -> None:
    await limited(scene, tenant=1)
    passing = {"buckets": "tenant:a", "ties": int(Tie.NODE | Tie.PERMITS)}
    flow = new_flow({"a": [], "b": ["a"]}, node_options={"a": passing, "b": passing})
    first, second = (node.job.id for node in flow.nodes)
    await scene.store.flows.start([flow])
    [held] = await scene.claim(10)
    assert held.id == first
    await scene.finish(held)
    [other] = await scene.claim(10)
    assert (other.id, await in_use(scene, "tenant:a")) == (second, 1)
    await scene.finish(other)
    assert await in_use(scene, "tenant:a") == 0
    await nothing_is_wrong(scene)
