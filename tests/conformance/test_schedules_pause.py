"""Schedules.pause and resume: an operator's switch, and what it leaves to be read."""

from __future__ import annotations

from tests.conformance.builders import Scene
from tests.conformance.planning import NAME, Diary, definition


async def test_a_pause_names_those_there_are(scene: Scene) -> None:
    await scene.store.schedules.declare({"b": definition(), "a": definition(), "c": definition()})
    assert await scene.store.schedules.pause(["b", "a", "none"]) == ["a", "b"]
    assert [one.paused for one in await scene.store.schedules.find()] == [True, True, False]


async def test_no_names_pause_nothing(scene: Scene) -> None:
    diary = await Diary.of(scene)
    assert await scene.store.schedules.pause([]) == []
    assert await scene.store.schedules.resume([]) == []
    assert not (await diary.schedule()).paused


async def test_a_pause_may_be_repeated_and_began_at_the_first(scene: Scene) -> None:
    diary = await Diary.of(scene)
    began = scene.clock.now
    await scene.store.schedules.pause([NAME])
    scene.clock.advance(60)
    assert await scene.store.schedules.pause([NAME]) == [NAME]
    found = await diary.schedule()
    assert (found.paused_at, found.resumed_at) == (began, None)
    assert found.revision == 2


async def test_a_resumed_schedule_tells_when_its_pause_was(scene: Scene) -> None:
    diary = await Diary.of(scene)
    began = scene.clock.now
    await scene.store.schedules.pause([NAME])
    ended = scene.clock.advance(60)
    assert await scene.store.schedules.resume([NAME, "none"]) == [NAME]
    scene.clock.advance(60)
    assert await scene.store.schedules.resume([NAME]) == [NAME]
    found = await diary.schedule()
    assert not found.paused
    assert (found.paused_at, found.resumed_at) == (began, ended)
    assert found.revision == 3


async def test_a_new_pause_has_not_been_resumed(scene: Scene) -> None:
    diary = await Diary.of(scene)
    await scene.store.schedules.pause([NAME])
    await scene.store.schedules.resume([NAME])
    began = scene.clock.advance(60)
    await scene.store.schedules.pause([NAME])
    found = await diary.schedule()
    assert (found.paused, found.paused_at, found.resumed_at) == (True, began, None)


async def test_a_resume_of_what_was_never_paused_changes_nothing(scene: Scene) -> None:
    diary = await Diary.of(scene)
    before = await diary.schedule()
    scene.clock.advance(60)
    await scene.store.schedules.resume([NAME])
    assert await diary.schedule() == before
