"""Wakeups about schedules: evaluators hear of changes, and workers of what plans start."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from holdfast.store.contract.schedules import Schedules
from holdfast.store.contract.wakeups import Topic
from tests.conformance.builders import QUEUE, Scene
from tests.conformance.planning import NAME, Diary, definition
from tests.support.backends import siblings
from tests.support.listening import listening

CHANGES: dict[str, Callable[[Schedules], Awaitable[object]]] = {
    "declare a new one": lambda schedules: schedules.declare({"new": definition()}),
    "declare a change": lambda schedules: schedules.declare({NAME: definition("0 4 * * *")}),
    "put": lambda schedules: schedules.put(NAME, definition("0 4 * * *")),
    "pause": lambda schedules: schedules.pause([NAME]),
    "resume": lambda schedules: schedules.resume([NAME]),
    "delete": lambda schedules: schedules.delete([NAME]),
}

NO_CHANGES: dict[str, Callable[[Schedules], Awaitable[object]]] = {
    "declare the same": lambda schedules: schedules.declare({NAME: definition()}),
    "put of an old revision": lambda schedules: schedules.put(NAME, definition(), 99),
    "pause none": lambda schedules: schedules.pause(["none"]),
    "delete none": lambda schedules: schedules.delete(["none"]),
    "complain": lambda schedules: schedules.complain(NAME, "hm"),
}


@pytest.fixture(params=["itself", "a sibling"])
async def far_scene(request: pytest.FixtureRequest, scene: Scene) -> AsyncIterator[Scene]:
    """The scene as seen by who does the work that should be heard of."""
    if request.param == "itself":
        yield scene
        return
    async with siblings(scene.store, 1) as [sibling]:
        yield scene.through(sibling)


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_wakes_the_evaluators(scene: Scene, far_scene: Scene, change: str) -> None:
    await Diary.of(scene)
    async with listening(scene.store) as ear:
        await CHANGES[change](far_scene.store.schedules)
        assert await ear.hears(Topic.SCHEDULES)


@pytest.mark.parametrize("change", NO_CHANGES)
async def test_what_changes_nothing_wakes_nobody(scene: Scene, change: str) -> None:
    await Diary.of(scene)
    async with listening(scene.store) as ear:
        await NO_CHANGES[change](scene.store.schedules)
        await scene.enqueue()
        assert await ear.hears(Topic.READY, QUEUE)
        assert Topic.SCHEDULES not in {one.topic for one in ear.heard}


async def test_an_edit_that_code_may_not_overwrite_is_no_news(scene: Scene) -> None:
    await scene.store.schedules.put(NAME, definition("0 4 * * *"))
    async with listening(scene.store) as ear:
        await scene.store.schedules.declare({NAME: definition()})
        await scene.enqueue()
        assert await ear.hears(Topic.READY, QUEUE)
        assert Topic.SCHEDULES not in {one.topic for one in ear.heard}


async def test_a_plan_that_fires_wakes_the_queue_of_its_job(scene: Scene, far_scene: Scene) -> None:
    diary = await Diary.of(far_scene)
    async with listening(scene.store) as ear:
        await diary.started(job={"queue": "mail"})
        assert await ear.hears(Topic.READY, "mail")
        await diary.started(1, job={"delay": 60.0})
        assert await ear.hears(Topic.DUE)


async def test_a_replaced_running_job_wakes_its_worker(scene: Scene, far_scene: Scene) -> None:
    diary = await Diary.of(far_scene)
    old = await diary.started(0)
    await scene.claim_one()
    async with listening(scene.store) as ear:
        await diary.started(1, cancel=(old,))
        assert await ear.hears(Topic.CANCEL, scene.worker)
