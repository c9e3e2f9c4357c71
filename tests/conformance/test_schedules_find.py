"""Schedules.find and complain: what there is, by name, and what is wrong with it."""

from __future__ import annotations

from tests.conformance.builders import Scene
from tests.conformance.planning import NAME, Diary, definition


async def test_an_empty_store_lists_none(scene: Scene) -> None:
    assert await scene.store.schedules.find() == []
    assert await scene.store.schedules.find(["none"]) == []


async def test_all_come_by_name_whatever_they_are_called(scene: Scene) -> None:
    names = ["z", "a", "Ä", "день", "a b", "'; drop table job; --", "🦊", "["]
    await scene.store.schedules.declare(dict.fromkeys(names, definition()))
    assert [one.name for one in await scene.store.schedules.find()] == sorted(names)


async def test_only_those_named_come_and_each_once(scene: Scene) -> None:
    await scene.store.schedules.declare(dict.fromkeys("abc", definition()))
    found = await scene.store.schedules.find(["c", "a", "c", "none"])
    assert [one.name for one in found] == ["a", "c"]


async def test_a_complaint_shows_on_its_schedule_since_it_began(scene: Scene) -> None:
    diary = await Diary.of(scene)
    other = await Diary.of(scene, "other")
    await scene.store.schedules.complain(NAME, "no such zone: Europe/Berlon")
    began = scene.clock.now
    scene.clock.advance(60)
    await scene.store.schedules.complain(NAME, "no such zone: Europe/Berlon")
    found = await diary.schedule()
    assert (found.error, found.error_at) == ("no such zone: Europe/Berlon", began)
    assert found.revision == 1
    assert (await other.schedule()).error is None


async def test_another_complaint_takes_its_place(scene: Scene) -> None:
    diary = await Diary.of(scene)
    await scene.store.schedules.complain(NAME, "first")
    scene.clock.advance(60)
    await scene.store.schedules.complain(NAME, "second")
    found = await diary.schedule()
    assert (found.error, found.error_at) == ("second", scene.clock.now)


async def test_a_complaint_is_cleared(scene: Scene) -> None:
    diary = await Diary.of(scene)
    await scene.store.schedules.complain(NAME, "first")
    await scene.store.schedules.complain(NAME, None)
    await scene.store.schedules.complain(NAME, None)
    found = await diary.schedule()
    assert (found.error, found.error_at) == (None, None)


async def test_any_text_can_be_complained_about(scene: Scene) -> None:
    diary = await Diary.of(scene)
    await scene.store.schedules.complain(NAME, "bad \x00 \ud800" + "x" * 20_000)
    error = (await diary.schedule()).error
    assert error is not None
    assert error.startswith("bad ")
    assert len(error) < 10_000


async def test_a_complaint_about_none_changes_nothing(scene: Scene) -> None:
    await scene.store.schedules.complain("none", "lost")
    assert await scene.store.schedules.find() == []
