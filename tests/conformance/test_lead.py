"""Workers.lead: one leader per role, by a lease that is given up or lapses."""

from __future__ import annotations

import asyncio

from holdfast.store.contract.wakeups import Topic
from tests.conformance.builders import Scene
from tests.support.backends import siblings
from tests.support.listening import listening

ROLE = "rollup"


async def test_the_first_to_ask_leads(scene: Scene) -> None:
    one, other = await scene.hire(), await scene.hire()
    assert await scene.store.workers.lead(ROLE, one, 15)
    assert not await scene.store.workers.lead(ROLE, other, 15)


async def test_a_leader_extends_its_own_lease(scene: Scene) -> None:
    one, other = await scene.hire(), await scene.hire()
    for _ in range(4):
        assert await scene.store.workers.lead(ROLE, one, 15)
        scene.clock.advance(10)
    assert not await scene.store.workers.lead(ROLE, other, 15)


async def test_a_lapsed_leader_is_succeeded(scene: Scene) -> None:
    one, other = await scene.hire(), await scene.hire()
    await scene.store.workers.lead(ROLE, one, 15)
    scene.clock.advance(16)
    assert await scene.store.workers.lead(ROLE, other, 15)
    assert not await scene.store.workers.lead(ROLE, one, 15)


async def test_a_role_given_up_is_free_at_once(scene: Scene) -> None:
    one, other = await scene.hire(), await scene.hire()
    await scene.store.workers.lead(ROLE, one, 15)
    await scene.store.workers.stop_leading(ROLE, one)
    assert await scene.store.workers.lead(ROLE, other, 15)


async def test_who_gives_a_role_up_tells_the_others(scene: Scene) -> None:
    one, other = await scene.hire(), await scene.hire()
    await scene.store.workers.lead(ROLE, one, 15)
    async with siblings(scene.store, 1) as [sibling], listening(sibling) as ear:
        await scene.store.workers.stop_leading(ROLE, other)
        await scene.store.workers.stop_leading(ROLE, one)
        assert await ear.hears(Topic.LEAD, ROLE)
        assert len([one for one in ear.heard if one.topic is Topic.LEAD]) == 1


async def test_nobody_can_give_up_anothers_role(scene: Scene) -> None:
    one, other = await scene.hire(), await scene.hire()
    await scene.store.workers.lead(ROLE, one, 15)
    await scene.store.workers.stop_leading(ROLE, other)
    await scene.store.workers.stop_leading("unheard of", other)
    assert not await scene.store.workers.lead(ROLE, other, 15)


async def test_roles_are_led_apart(scene: Scene) -> None:
    one, other = await scene.hire(), await scene.hire()
    assert await scene.store.workers.lead("rollup", one, 15)
    assert await scene.store.workers.lead("rebalance", other, 15)


async def test_of_many_who_ask_at_once_one_leads(scene: Scene) -> None:
    async with siblings(scene.store, 4) as others:
        hired = [await scene.hire() for _ in others]
        answers = await asyncio.gather(
            *(s.workers.lead(ROLE, worker, 15) for s, worker in zip(others, hired, strict=True))
        )
    assert answers.count(True) == 1
