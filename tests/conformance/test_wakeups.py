"""Wakeups: hints that something is worth a look. A name left empty means any."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.job.ends import HandedBack, WasSuspended
from holdfast.job.signal import Sent
from holdfast.store.contract.store import Store
from holdfast.store.contract.wakeups import Topic, Wakeup
from tests.conformance.builders import QUEUE, RAISED, Scene
from tests.conformance.signalling import send, wait
from tests.support.backends import siblings
from tests.support.listening import PATIENCE, Ear, listening
from tests.support.waiting import wait_until

TURNED = 0.1


@asynccontextmanager
async def dozing(store: Store, ear: Ear) -> AsyncIterator[None]:
    """A line is turned by a call of its own, after `doze` has returned."""
    store.wakeups.doze(ear, True)
    await asyncio.sleep(TURNED)
    try:
        yield
    finally:
        store.wakeups.doze(ear, False)
        await asyncio.sleep(TURNED)


@pytest.fixture(params=["itself", "a sibling"])
async def far_scene(request: pytest.FixtureRequest, scene: Scene) -> AsyncIterator[Scene]:
    """The scene as seen by who does the work that should be heard of."""
    if request.param == "itself":
        yield scene
        return
    async with siblings(scene.store, 1) as [sibling]:
        yield scene.through(sibling)


async def test_a_ready_job_wakes_its_queue(scene: Scene, far_scene: Scene) -> None:
    async with listening(scene.store) as ear:
        await far_scene.enqueue(queue="mail")
        assert await ear.hears(Topic.READY, "mail")


async def test_a_signal_wakes_the_queue_of_its_job(scene: Scene, far_scene: Scene) -> None:
    claimed = await scene.running(queue="mail")
    assert (await wait(scene, claimed)).accepted
    async with listening(scene.store) as ear:
        assert await send(far_scene, claimed.id) is Sent.WOKE
        assert await ear.hears(Topic.READY, "mail")


async def test_a_paused_queue_is_heard_of(scene: Scene, far_scene: Scene) -> None:
    async with listening(scene.store) as ear:
        await far_scene.store.queues.pause(["mail"])
        assert await ear.hears(Topic.PAUSED, "mail")


async def test_a_scheduled_job_wakes_the_promoter(scene: Scene, far_scene: Scene) -> None:
    async with listening(scene.store) as ear:
        await far_scene.enqueue(delay=60.0)
        assert await ear.hears(Topic.DUE)


async def test_a_retry_wakes_the_promoter(scene: Scene, far_scene: Scene) -> None:
    claimed = await scene.running()
    async with listening(scene.store) as ear:
        await far_scene.finish(claimed, RAISED)
        assert await ear.hears(Topic.DUE)


async def test_a_suspension_with_a_timer_wakes_the_promoter(scene: Scene, far_scene: Scene) -> None:
    claimed = await scene.running()
    async with listening(scene.store) as ear:
        await far_scene.finish(claimed, WasSuspended(60.0))
        assert await ear.hears(Topic.DUE)


async def test_a_hand_back_wakes_its_queue(scene: Scene, far_scene: Scene) -> None:
    claimed = await scene.running()
    async with listening(scene.store) as ear:
        await far_scene.finish(claimed, HandedBack())
        assert await ear.hears(Topic.READY, QUEUE)


async def test_a_promotion_wakes_the_queue(scene: Scene, far_scene: Scene) -> None:
    await scene.enqueue(delay=1.0)
    scene.clock.advance(2)
    async with listening(scene.store) as ear:
        await far_scene.store.jobs.promote_due(10)
        assert await ear.hears(Topic.READY, QUEUE)


async def test_a_cancel_wakes_the_worker(scene: Scene, far_scene: Scene) -> None:
    claimed = await scene.running()
    async with listening(scene.store) as ear:
        await far_scene.store.jobs.request_cancel([claimed.id])
        assert await ear.hears(Topic.CANCEL, scene.worker)


async def test_a_resumed_queue_is_woken(scene: Scene, far_scene: Scene) -> None:
    await scene.enqueue()
    await scene.store.queues.pause([QUEUE])
    async with listening(scene.store) as ear:
        await far_scene.store.queues.resume([QUEUE])
        assert await ear.hears(Topic.READY, QUEUE)


async def test_a_resumed_job_wakes_its_queue(scene: Scene, far_scene: Scene) -> None:
    claimed = await scene.ended(WasSuspended(None))
    async with listening(scene.store) as ear:
        await far_scene.store.jobs.resume([claimed.id])
        assert await ear.hears(Topic.READY, QUEUE)


async def test_a_requeued_job_wakes_its_queue(scene: Scene, far_scene: Scene) -> None:
    claimed = await scene.ended()
    async with listening(scene.store) as ear:
        await far_scene.store.jobs.requeue([claimed.id])
        assert await ear.hears(Topic.READY, QUEUE)


async def test_a_job_made_ready_or_due_by_an_operator_is_heard_of(
    scene: Scene, far_scene: Scene
) -> None:
    job = await scene.enqueue()
    async with listening(scene.store) as ear:
        await far_scene.store.jobs.reschedule([job], 60)
        assert await ear.hears(Topic.DUE)
        ear.heard.clear()
        await far_scene.store.jobs.reschedule([job], 0)
        assert await ear.hears(Topic.READY, QUEUE)


async def test_every_listener_hears(scene: Scene) -> None:
    async with listening(scene.store) as one, listening(scene.store) as other:
        await scene.enqueue()
        assert await one.hears(Topic.READY, QUEUE)
        assert await other.hears(Topic.READY, QUEUE)


async def test_who_no_longer_listens_hears_nothing(scene: Scene) -> None:
    async with listening(scene.store) as ear:
        pass
    async with listening(scene.store) as other:
        await scene.enqueue()
        assert await other.hears(Topic.READY, QUEUE)
    assert ear.heard == []


async def test_a_listener_that_raises_does_not_deafen_the_others(scene: Scene) -> None:
    def broken(wakeup: Wakeup) -> None:
        raise RuntimeError("a broken listener")

    unsubscribe = await scene.store.wakeups.subscribe(broken)
    async with listening(scene.store) as ear:
        for queue in ("first", "second"):
            await scene.enqueue(queue=queue)
            assert await ear.hears(Topic.READY, queue)
    unsubscribe()


@pytest.mark.parametrize("count", [1, 600])
async def test_a_deadline_wakes_whoever_watches_due_times(scene: Scene, count: int) -> None:
    async with listening(scene.store) as ear:
        await scene.enqueue_many(count, deadline_in=60.0)
        assert await ear.hears(Topic.DUE)


@pytest.mark.parametrize("count", [1, 600])
async def test_a_delayed_job_wakes_no_queue(scene: Scene, count: int) -> None:
    async with listening(scene.store) as ear:
        await scene.enqueue_many(count, delay=60.0)
        assert await ear.hears(Topic.DUE)
        assert Topic.READY not in {one.topic for one in ear.heard}


async def test_a_retry_wakes_no_queue(scene: Scene) -> None:
    claimed = await scene.running()
    async with listening(scene.store) as ear:
        await scene.finish(claimed, RAISED)
        assert await ear.hears(Topic.DUE)
        assert Topic.READY not in {one.topic for one in ear.heard}


async def test_a_single_ready_job_is_told_of_as_one(scene: Scene, far_scene: Scene) -> None:
    async with listening(scene.store) as ear:
        await far_scene.enqueue(queue="mail")
        assert await ear.hears(Topic.READY, "mail")
        assert {one.jobs for one in ear.heard} == {1}


async def test_a_single_promotion_is_told_of_as_one(scene: Scene, far_scene: Scene) -> None:
    await scene.enqueue(delay=1.0)
    scene.clock.advance(2)
    async with listening(scene.store) as ear:
        await far_scene.store.jobs.promote_due(10)
        assert await ear.hears(Topic.READY, QUEUE)
        assert {one.jobs for one in ear.heard if one.topic is Topic.READY} == {1}


async def test_many_ready_jobs_are_never_told_of_as_fewer(scene: Scene, far_scene: Scene) -> None:
    async with listening(scene.store) as ear:
        await far_scene.enqueue_many(40, queue="mail")

        def all_told_of() -> bool:
            """At once, by each partition, or without a number, which means many."""
            jobs = [one.jobs for one in ear.heard]
            return sum(jobs) >= 40 or 0 in jobs

        await wait_until(all_told_of, PATIENCE, "all are told of")


async def test_who_dozes_hears_of_many_jobs_and_not_of_a_few(
    scene: Scene, far_scene: Scene
) -> None:
    async with listening(scene.store) as ear, dozing(scene.store, ear):
        await far_scene.enqueue(queue="mail")
        await far_scene.store.queues.pause(["mail"])
        assert await ear.hears(Topic.PAUSED, "mail")
        assert Topic.READY not in {one.topic for one in ear.heard}
        # Many in each of the partitions that a store may have: each tells of its own.
        await far_scene.enqueue_many(400, queue="letters")
        assert await ear.hears(Topic.READY, "letters")


async def test_who_dozed_hears_again(scene: Scene, far_scene: Scene) -> None:
    async with listening(scene.store) as ear:
        async with dozing(scene.store, ear):
            pass
        await far_scene.enqueue(queue="mail")
        assert await ear.hears(Topic.READY, "mail")


async def test_one_that_dozes_takes_nothing_from_another(scene: Scene, far_scene: Scene) -> None:
    async with (
        listening(scene.store) as ear,
        listening(scene.store) as other,
        dozing(scene.store, ear),
    ):
        await far_scene.enqueue(queue="mail")
        assert await other.hears(Topic.READY, "mail")
        assert ear.heard == []


async def test_who_listens_for_some_topics_hears_of_those(scene: Scene, far_scene: Scene) -> None:
    ear = Ear()
    unsubscribe = await scene.store.wakeups.subscribe(ear, {Topic.DUE})
    await far_scene.enqueue(queue="mail")
    await far_scene.enqueue(delay=60.0)
    assert await ear.hears(Topic.DUE)
    assert {one.topic for one in ear.heard} == {Topic.DUE}
    unsubscribe()


async def test_what_a_poll_found_is_told_to_the_listeners_here(scene: Scene) -> None:
    async with listening(scene.store) as ear:
        scene.store.wakeups.tell(Wakeup(Topic.DUE))
        assert await ear.hears(Topic.DUE)


async def test_a_store_that_listens_says_so(scene: Scene) -> None:
    async with listening(scene.store):
        assert scene.store.wakeups.hears
