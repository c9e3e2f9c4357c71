"""Schedules.put: an operator's word, guarded by the revision that was read."""

from __future__ import annotations

import asyncio

from tests.conformance.builders import Scene
from tests.conformance.planning import NAME, Diary, definition
from tests.support.backends import siblings


async def test_an_operator_makes_a_schedule_at_run_time(scene: Scene) -> None:
    assert await scene.store.schedules.put(NAME, definition())
    [found] = await scene.store.schedules.find()
    assert found.definition == definition()
    assert (found.edited, found.revision, found.declared_at) == (True, 1, None)
    assert found.created_at == scene.clock.now
    assert found.changed_at is None


async def test_an_edit_raises_the_revision_and_is_marked(scene: Scene) -> None:
    diary = await Diary.of(scene)
    before = await diary.schedule()
    scene.clock.advance(60)
    assert await scene.store.schedules.put(NAME, definition("0 4 * * *"))
    found = await diary.schedule()
    assert (found.edited, found.revision) == (True, before.revision + 1)
    assert found.definition == definition("0 4 * * *")
    assert (found.created_at, found.declared_at) == (before.created_at, before.declared_at)
    assert found.changed_at == scene.clock.now


async def test_an_edit_that_keeps_the_rule_keeps_its_time(scene: Scene) -> None:
    diary = await Diary.of(scene)
    await scene.store.schedules.put(NAME, definition(priority=7))
    first = (await diary.schedule()).revision
    await scene.store.schedules.put(NAME, definition(priority=8), first)
    assert (await diary.schedule()).changed_at is None


async def test_an_edit_of_the_revision_that_was_read_is_taken(scene: Scene) -> None:
    diary = await Diary.of(scene)
    scene.clock.advance(60)
    revision = (await diary.schedule()).revision
    assert await scene.store.schedules.put(NAME, definition("0 4 * * *"), revision)
    found = await diary.schedule()
    assert (found.edited, found.revision) == (True, revision + 1)
    assert found.definition == definition("0 4 * * *")
    assert found.changed_at == scene.clock.now


async def test_an_edit_of_an_old_revision_is_refused(scene: Scene) -> None:
    diary = await Diary.of(scene)
    revision = (await diary.schedule()).revision
    await scene.store.schedules.put(NAME, definition("0 4 * * *"))
    assert not await scene.store.schedules.put(NAME, definition("0 5 * * *"), revision)
    assert (await diary.schedule()).definition == definition("0 4 * * *")


async def test_a_pause_is_a_change_that_an_edit_notices(scene: Scene) -> None:
    diary = await Diary.of(scene)
    revision = (await diary.schedule()).revision
    await scene.store.schedules.pause([NAME])
    assert not await scene.store.schedules.put(NAME, definition("0 5 * * *"), revision)


async def test_a_revision_of_a_schedule_that_is_not_there_makes_none(scene: Scene) -> None:
    assert not await scene.store.schedules.put(NAME, definition(), 1)
    assert await scene.store.schedules.find() == []


async def test_of_many_edits_of_one_revision_one_is_taken(scene: Scene) -> None:
    diary = await Diary.of(scene)
    revision = (await diary.schedule()).revision
    async with siblings(scene.store, 4) as others:
        taken = await asyncio.gather(
            *(
                other.schedules.put(NAME, definition(priority=number), revision)
                for number, other in enumerate(others)
            )
        )
    assert sum(taken) == 1
    found = await diary.schedule()
    assert found.definition.priority == taken.index(True)
    assert found.revision == revision + 1


async def test_of_many_who_make_it_at_once_all_are_heard(scene: Scene) -> None:
    async with siblings(scene.store, 4) as others:
        taken = await asyncio.gather(*(other.schedules.put(NAME, definition()) for other in others))
    assert taken == [True] * 4
    assert (await Diary(scene).schedule()).revision == 4


async def test_of_many_who_make_one_that_must_be_new_one_does(scene: Scene) -> None:
    async with siblings(scene.store, 4) as others:
        taken = await asyncio.gather(
            *(
                other.schedules.put(NAME, definition(priority=number), 0)
                for number, other in enumerate(others)
            )
        )
    assert sum(taken) == 1
    found = await Diary(scene).schedule()
    assert (found.definition.priority, found.revision) == (taken.index(True), 1)
    assert not await scene.store.schedules.put(NAME, definition(), 0)


async def test_what_an_operator_made_and_code_declares_is_both(scene: Scene) -> None:
    await scene.store.schedules.put(NAME, definition("0 4 * * *"))
    diary = await Diary.of(scene)
    found = await diary.schedule()
    assert found.edited
    assert found.definition == definition("0 4 * * *")
    assert found.declared_at == scene.clock.now
