"""Totals of queues: how many of a queue's jobs run at once in all workers together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from holdfast.client.limits import LimitVerbs
from holdfast.errors import BadOption
from holdfast.job.ends import HandedBack
from holdfast.job.ties import Tie
from holdfast.limits.model import Concurrency
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.records import Want
from holdfast.store.contract.wakeups import Topic, Wakeup
from tests.conformance.builders import QUEUE, RAISED, RETURNED, TASK, Scene
from tests.conformance.limiting import (
    at_cost,
    begun,
    bucket,
    in_use,
    limited,
    nothing_is_wrong,
    of,
    through,
)
from tests.support.waiting import wait_until

TOTAL = f"queue:{QUEUE}"

pytestmark = pytest.mark.usefixtures("totals")


async def total(scene: Scene, most: int | None, queue: str = QUEUE) -> None:
    await scene.store.queues.tune(queue, QueueSettings(max_running=most))


async def test_no_more_jobs_of_a_queue_run_than_its_total(scene: Scene) -> None:
    await total(scene, 2)
    jobs = await scene.enqueue_many(5)
    held = await scene.claim(10)
    assert of(held) == jobs[:2]
    assert await scene.claim(10) == []
    await scene.finish(held[0])
    assert of(await scene.claim(10)) == jobs[2:3]
    found = await bucket(scene, TOTAL)
    assert (found.settings, found.in_use, found.room) == (Concurrency(2), 2, 0)
    await nothing_is_wrong(scene)


async def test_a_total_is_no_limit_that_is_listed(scene: Scene) -> None:
    await total(scene, 2)
    await scene.running()
    assert await scene.store.limits.find() == []


async def test_other_queues_have_nothing_to_do_with_it(scene: Scene) -> None:
    await total(scene, 1)
    await scene.enqueue_many(3, queue="other")
    assert len(await scene.claim(10, "other")) == 3
    assert (await bucket(scene, "queue:other")).in_use == 0


async def test_a_new_total_holds_in_a_claim_that_another_queue_fills_too(scene: Scene) -> None:
    wants = [Want("other", 3), Want(QUEUE, 10)]
    await scene.enqueue_many(20, queue="other")
    jobs = await scene.enqueue_many(5)
    await scene.store.jobs.claim(scene.worker, wants[:1], [TASK])
    await total(scene, 2)
    claimed = await scene.store.jobs.claim(scene.worker, wants, [TASK])
    assert sorted(one.queue for one in claimed) == sorted([QUEUE] * 2 + ["other"] * 3)
    assert [one.id for one in claimed if one.queue == QUEUE] == jobs[:2]


async def test_a_queue_without_a_total_writes_no_bucket(scene: Scene) -> None:
    await scene.store.queues.tune(QUEUE, QueueSettings(throttle_cap=9.0))
    await scene.finish(await scene.running())
    assert (await scene.store.limits.recount(10)).buckets == 0


async def test_plain_jobs_and_jobs_with_limits_share_a_total(scene: Scene) -> None:
    await limited(scene, tenant=2)
    await total(scene, 5)
    await scene.enqueue_many(4)
    for key in "ab":
        await scene.enqueue_many(4, **through(f"tenant:{key}"))
    held = await scene.claim(20)
    assert len(held) == 5
    assert await in_use(scene, TOTAL) == 5
    await nothing_is_wrong(scene)
    for job in held:
        assert (await scene.finish(job)).accepted
    assert await in_use(scene, TOTAL) == 0
    assert len(await scene.claim(20)) == 5
    await nothing_is_wrong(scene)


async def test_a_job_of_any_cost_counts_as_one_in_the_total(scene: Scene) -> None:
    await limited(scene, memory=100, tenant=9)
    await total(scene, 2)
    for _ in range(3):
        await scene.enqueue(**at_cost({"memory:": 30, "tenant:a": 2}))
    held = await scene.claim(10)
    found = await scene.store.limits.get([TOTAL, "memory:", "tenant:a"])
    assert [one.in_use for one in found] == [2, 60, 4]
    await nothing_is_wrong(scene)
    for job in held:
        await scene.finish(job, RAISED)
    found = await scene.store.limits.get([TOTAL, "memory:", "tenant:a"])
    assert [one.in_use for one in found] == [0, 0, 0]


async def test_a_plain_job_that_is_tried_again_stands_where_it_stood(scene: Scene) -> None:
    await total(scene, 1)
    job = await scene.enqueue()
    [held] = await scene.claim(1)
    assert held.ties & Tie.PERMITS
    await scene.finish(held, HandedBack())
    assert await in_use(scene, TOTAL) == 0
    [again] = await scene.claim(1)
    await scene.finish(again, RAISED)
    scene.clock.advance(60)
    await scene.store.jobs.promote_due(10)
    await total(scene, None)
    [last] = await scene.claim(1)
    assert last.id == job
    assert (await scene.finish(last)).accepted
    await nothing_is_wrong(scene)


async def test_a_total_counts_what_runs_already_and_stops_none(scene: Scene) -> None:
    await limited(scene, tenant=9)
    held = [await scene.running(), *await begun(scene, 2, "tenant:a")]
    await total(scene, 2)
    assert await in_use(scene, TOTAL) == 3
    await nothing_is_wrong(scene)
    await scene.enqueue()
    for job in held[:2]:
        assert await scene.claim(10) == []
        assert (await scene.finish(job, RETURNED)).accepted
    assert len(await scene.claim(10)) == 1
    assert await in_use(scene, TOTAL) == 2
    await nothing_is_wrong(scene)


async def test_a_total_may_be_raised_lowered_and_taken_back(scene: Scene) -> None:
    await total(scene, 1)
    await scene.enqueue_many(9)
    assert len(await scene.claim(10)) == 1
    await total(scene, 3)
    assert len(await scene.claim(10)) == 2
    await total(scene, 2)
    assert await scene.claim(10) == []
    await total(scene, None)
    assert len(await scene.claim(10)) == 6
    await nothing_is_wrong(scene)
    await total(scene, 4)
    assert await in_use(scene, TOTAL) == 9, "also those that began while there was none"
    await nothing_is_wrong(scene)


async def test_lines_that_wait_for_a_total_go_on_without_it(scene: Scene) -> None:
    await limited(scene, tenant=9)
    await total(scene, 1)
    await scene.enqueue_many(2, **through("tenant:a"))
    await scene.enqueue_many(2, **through("tenant:b"))
    assert len(await scene.claim(10)) == 1
    assert await scene.claim(10) == []
    await total(scene, None)
    assert len(await scene.claim(10)) == 3
    await nothing_is_wrong(scene)


async def test_an_end_in_a_full_queue_wakes_its_workers(scene: Scene) -> None:
    await total(scene, 1)
    await scene.enqueue_many(2)
    [held] = await scene.claim(1)
    heard: list[Wakeup] = []
    unsubscribe = await scene.store.wakeups.subscribe(heard.append)
    await scene.finish(held)
    await wait_until(
        lambda: any((one.topic, one.name) == (Topic.READY, QUEUE) for one in heard), 10, "a wakeup"
    )
    unsubscribe()


ON_LIMITS: dict[str, Callable[[Scene, LimitVerbs], Awaitable[object]]] = {
    "retire": lambda _, verbs: verbs.retire("queue"),
    "set all": lambda _, verbs: verbs.set("queue", most=9, create=True),
    "set one": lambda _, verbs: verbs.set("queue", key=QUEUE, most=9),
    "make one": lambda _, verbs: verbs.set("queue", key=QUEUE, most=9, create=True),
    "inherit": lambda _, verbs: verbs.inherit("queue", QUEUE),
    "drain": lambda _, verbs: verbs.drain("queue", 60, key=QUEUE),
    "top up": lambda _, verbs: verbs.top_up("queue", 60, key=QUEUE),
    "reset": lambda _, verbs: verbs.reset("queue", key=QUEUE),
    "Limits.retire": lambda scene, _: scene.store.limits.retire(["tenant", "queue"]),
    "Limits.override": lambda scene, _: scene.store.limits.override("queue", QUEUE, Concurrency(9)),
    "Limits.drain": lambda scene, _: scene.store.limits.drain({"tenant:": 60.0, TOTAL: 60.0}),
}


@pytest.mark.parametrize("verb", ON_LIMITS)
async def test_no_verb_of_limits_changes_a_total(scene: Scene, verb: str) -> None:
    await limited(scene, tenant=9)
    await total(scene, 2)
    await scene.enqueue_many(4)
    await scene.enqueue_many(1, **through("tenant:"), priority=9)
    with pytest.raises(BadOption, match="counts whole queues: pause or tune the queue itself"):
        await ON_LIMITS[verb](scene, LimitVerbs(scene.store))
    [known] = await scene.store.limits.find()
    assert (known.name, known.retired) == ("tenant", False)
    assert len(await scene.claim(10)) == 2
    await total(scene, None)
    assert len(await scene.claim(10)) == 3


async def test_a_changed_total_is_told_to_the_fleet(scene: Scene) -> None:
    heard: list[Wakeup] = []
    unsubscribe = await scene.store.wakeups.subscribe(heard.append)
    await total(scene, 3)
    await wait_until(
        lambda: any((one.topic, one.name) == (Topic.FLEET, QUEUE) for one in heard), 10, "a wakeup"
    )
    unsubscribe()


async def test_a_lost_worker_s_jobs_leave_the_total(scene: Scene) -> None:
    await total(scene, 1)
    worker = await scene.hire()
    await scene.enqueue()
    await scene.claim(1, worker=worker)
    await scene.lose(worker)
    [live] = await scene.store.jobs.lapsed_leases(10)
    assert (await scene.reclaim(live, HandedBack())).accepted
    assert len(await scene.claim(1)) == 1
    assert await in_use(scene, TOTAL) == 1
    await nothing_is_wrong(scene)
