"""Workers.request_drain: a worker is told to leave until it has, and no other is."""

from __future__ import annotations

import asyncio

from holdfast.job.ids import WorkerId, new_worker_id
from holdfast.store.contract.wakeups import Topic, Wakeup
from holdfast.store.contract.workers import Beat, Drain, Held, WorkerInfo, WorkerStanding
from tests.conformance.builders import QUEUE, TASK, Scene, new_worker


async def info(scene: Scene, worker: WorkerId) -> WorkerInfo:
    [found] = [one for one in await scene.store.workers.find() if one.id == worker]
    return found


async def beat(scene: Scene, worker: WorkerId, *held: Held) -> Beat:
    return await scene.store.workers.heartbeat(worker, 30, held)


async def test_an_empty_batch_tells_nobody(scene: Scene) -> None:
    assert await scene.store.workers.request_drain([]) == []


async def test_every_beat_says_so_until_the_worker_has_left(scene: Scene) -> None:
    worker = await scene.hire()
    assert (await beat(scene, worker)).orders == ()
    assert await scene.store.workers.request_drain([worker]) == [worker]
    for _ in range(2):
        assert await beat(scene, worker) == Beat(True, orders=(Drain(),))
    await scene.store.workers.deregister(worker)
    assert await beat(scene, worker) == Beat(False)


async def test_only_those_named_are_told(scene: Scene) -> None:
    one, other = await scene.hire(), await scene.hire()
    assert await scene.store.workers.request_drain([one]) == [one]
    assert (await beat(scene, other)).orders == ()
    assert (await info(scene, other)).drain_requested_at is None


async def test_several_are_told_at_once_and_strangers_are_not(scene: Scene) -> None:
    workers = [await scene.hire() for _ in range(3)]
    told = await scene.store.workers.request_drain([*workers, new_worker_id(), workers[0]])
    assert sorted(told) == sorted(workers)


async def test_the_list_says_who_drains_and_since_when(scene: Scene) -> None:
    worker = await scene.hire(lease=30)
    asked = scene.clock.now
    for _ in range(2):
        await scene.store.workers.request_drain([worker])
        scene.clock.advance(5)
    found = await info(scene, worker)
    assert (found.drain_requested_at, found.standing) == (asked, WorkerStanding.DRAINING)
    assert (found.alive, found.available) == (True, False)
    scene.clock.advance(60)
    assert (await info(scene, worker)).standing is WorkerStanding.LAPSED


async def test_a_draining_worker_still_hears_of_cancels_and_of_what_it_lost(scene: Scene) -> None:
    worker = await scene.hire()
    claimed = await scene.running(worker=worker)
    await scene.store.jobs.request_cancel([claimed.id])
    await scene.store.workers.request_drain([worker])
    lost = new_worker_id()
    answer = await beat(
        scene, worker, Held(claimed.id, claimed.fence), Held(claimed.id, claimed.fence + 1)
    )
    assert answer.cancel[0] == claimed.id
    assert answer.lost[-1] == claimed.id
    assert answer.orders == (Drain(),)
    assert lost not in await scene.store.workers.request_drain([lost])


async def test_a_registration_that_is_repeated_takes_no_order_back(scene: Scene) -> None:
    worker = new_worker()
    await scene.store.workers.register(worker, 30)
    await scene.store.workers.request_drain([worker.id])
    await scene.store.workers.register(worker, 30)
    assert (await beat(scene, worker.id)).orders == (Drain(),)


async def test_a_worker_that_registers_anew_is_not_drained(scene: Scene) -> None:
    """A new process has a new id; only its name is the same."""
    old = await scene.hire(name="mailer")
    await scene.store.workers.request_drain([old])
    await scene.store.workers.deregister(old)
    new = await scene.hire(name="mailer")
    assert (await beat(scene, new)).orders == ()


async def test_a_lapsed_worker_is_told_when_it_beats_again(scene: Scene) -> None:
    worker = await scene.hire(lease=30)
    scene.clock.advance(100)
    assert await scene.store.workers.request_drain([worker]) == [worker]
    assert (await beat(scene, worker)).orders == (Drain(),)


async def test_the_worker_is_woken_and_a_poll_tells_it_too(scene: Scene) -> None:
    heard: list[Wakeup] = []
    woken = asyncio.Event()

    def listen(wakeup: Wakeup) -> None:
        if wakeup.topic is Topic.CANCEL:
            heard.append(wakeup)
            woken.set()

    worker = await scene.hire()
    unsubscribe = await scene.store.wakeups.subscribe(listen)
    before = await scene.store.workers.poll(worker, [QUEUE], [TASK])
    await scene.store.workers.request_drain([worker])
    async with asyncio.timeout(10):
        await woken.wait()
    unsubscribe()
    assert {wakeup.name for wakeup in heard} == {worker}
    after = await scene.store.workers.poll(worker, [QUEUE], [TASK])
    assert after.cancels > before.cancels
    await scene.store.workers.deregister(worker)
    assert (await scene.store.workers.poll(worker, [QUEUE], [TASK])).cancels == 0
