"""Workers.fleet: which queues have a total, and which workers share it."""

from __future__ import annotations

import pytest

from holdfast.job.ids import WorkerId
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.wakeups import Topic
from holdfast.store.contract.workers import QueueTotal
from tests.conformance.builders import Scene
from tests.support.backends import siblings
from tests.support.listening import listening

LEASE = 30.0

pytestmark = pytest.mark.usefixtures("totals")


async def hire(scene: Scene, **queues: int) -> WorkerId:
    return await scene.hire(LEASE, queues=queues)


async def total(scene: Scene, queue: str, most: int | None) -> None:
    await scene.store.queues.tune(queue, QueueSettings(max_running=most))


async def test_queues_without_a_total_are_left_out(scene: Scene) -> None:
    await hire(scene, mail=5)
    await scene.store.queues.tune("mail", QueueSettings(throttle_base=3))
    assert await scene.store.workers.fleet(["mail", "unknown"]) == []
    assert await scene.store.workers.fleet([]) == []


async def test_a_total_is_told_with_the_workers_that_serve_the_queue(scene: Scene) -> None:
    await total(scene, "mail", 10)
    await total(scene, "other", 3)
    one, two = await hire(scene, mail=5), await hire(scene, **{"ma*": 7, "rest": 1})
    await hire(scene, rest=9)
    workers = {one: 5, two: 7}
    [found] = await scene.store.workers.fleet(["mail", "rest"])
    assert found == QueueTotal("mail", 10, workers)
    assert list(found.slots) == sorted(workers), "in the same order for every worker"
    assert [q.queue for q in await scene.store.workers.fleet(["other", "mail"])] == [
        "mail",
        "other",
    ]


async def test_a_total_that_nobody_shares_is_told_too(scene: Scene) -> None:
    await total(scene, "mail", 0)
    assert await scene.store.workers.fleet(["mail"]) == [QueueTotal("mail", 0, {})]
    await total(scene, "mail", None)
    assert await scene.store.workers.fleet(["mail"]) == []


async def test_workers_that_lapsed_or_leave_share_nothing(scene: Scene) -> None:
    await total(scene, "mail", 4)
    gone, lapsed = await hire(scene, mail=1), await hire(scene, mail=2)
    scene.clock.advance(LEASE + 1)
    drained, stays = await hire(scene, mail=3), await hire(scene, mail=4)
    await scene.store.workers.deregister(gone)
    await scene.store.workers.request_drain([drained])
    [found] = await scene.store.workers.fleet(["mail"])
    assert found.slots == {stays: 4}
    await scene.store.workers.heartbeat(lapsed, LEASE, [])
    [found] = await scene.store.workers.fleet(["mail"])
    assert found.slots == {lapsed: 2, stays: 4}


async def test_workers_hear_who_comes_and_leaves(scene: Scene) -> None:
    async with siblings(scene.store, 1) as [sibling], listening(sibling) as ear:
        worker = await hire(scene, mail=1)
        assert await ear.hears(Topic.FLEET, "")
        ear.heard.clear()
        await scene.store.workers.request_drain([worker])
        assert await ear.hears(Topic.FLEET, "")
        ear.heard.clear()
        await scene.store.workers.deregister(worker)
        assert await ear.hears(Topic.FLEET, "")
