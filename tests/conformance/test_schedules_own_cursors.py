"""Schedules.own_cursors: the newest plan of every schedule, in one question."""

from __future__ import annotations

from tests.conformance.builders import Scene
from tests.conformance.planning import NAME, Diary


async def test_there_are_none_at_first(scene: Scene) -> None:
    assert await scene.store.schedules.own_cursors() == {}
    await Diary.of(scene)
    assert await scene.store.schedules.own_cursors() == {}


async def test_each_schedule_that_has_one_is_there(scene: Scene) -> None:
    first, second = await Diary.of(scene), await Diary.of(scene, "weekly")
    await Diary.of(scene, "new")
    await first.record(first.plan(0), first.plan(3))
    await second.schedules.advance("weekly", "", second.at(5))
    found = await scene.store.schedules.own_cursors()
    assert found == {NAME: first.at(3), "weekly": second.at(5)}


async def test_cursors_of_scopes_are_not_told(scene: Scene) -> None:
    diary = await Diary.of(scene)
    await diary.record(diary.plan(7, "tenant"))
    assert await scene.store.schedules.own_cursors() == {}
    await diary.record(diary.plan(1))
    assert await scene.store.schedules.own_cursors() == {NAME: diary.at(1)}


async def test_a_deleted_schedule_has_none(scene: Scene) -> None:
    diary = await Diary.of(scene)
    await diary.record(diary.plan(1))
    await diary.schedules.delete([NAME])
    assert await diary.schedules.own_cursors() == {}
