"""Schedules.delete: the rule goes with all that belongs to it, its jobs stay."""

from __future__ import annotations

import asyncio

from holdfast.clock import ManualClock
from holdfast.job.state import JobState
from tests.conformance.builders import Scene
from tests.conformance.planning import NAME, Diary, job_of
from tests.support.backends import Inspectable, opened, siblings


async def test_a_delete_names_those_it_removed(scene: Scene) -> None:
    await Diary.of(scene, "a")
    await Diary.of(scene, "b")
    assert await scene.store.schedules.delete(["b", "none"]) == ["b"]
    assert await scene.store.schedules.delete(["b"]) == []
    assert await scene.store.schedules.delete([]) == []
    assert [one.name for one in await scene.store.schedules.find()] == ["a"]


async def test_cursors_and_ledger_go_and_jobs_stay(scene: Scene) -> None:
    diary = await Diary.of(scene)
    job = await diary.started()
    await diary.schedules.delete([NAME])
    assert await diary.history() == []
    assert await diary.cursor() is None
    assert await diary.unfinished() == {}
    assert await scene.state(job) is JobState.READY


async def test_what_is_made_again_starts_afresh(scene: Scene) -> None:
    diary = await Diary.of(scene)
    await diary.started()
    await diary.schedules.delete([NAME])
    await Diary.of(scene)
    assert (await diary.schedule()).revision == 1
    assert await diary.record(diary.fire()) == [True]


async def test_the_others_lose_nothing(scene: Scene) -> None:
    diary, other = await Diary.of(scene), await Diary.of(scene, "other")
    await diary.started()
    job = await other.started()
    await diary.schedules.delete([NAME])
    assert await other.unfinished() == {"": [job]}
    assert await other.cursor() == other.at(0)
    assert len(await other.history()) == 1


async def test_nothing_is_left_of_it_in_any_table(
    inspectable: Inspectable, clock: ManualClock
) -> None:
    url = await inspectable.empty()
    async with opened(url, clock) as store:
        diary = await Diary.of(await Scene.on(store, clock), "name to be found")
        await diary.started()
        await store.schedules.delete([diary.name])
    for table in await inspectable.tables(url):
        rows = await inspectable.query(url, f"select * from {table}")
        assert not any("name to be found" in str(row) for row in rows), table


async def test_a_delete_amid_recording_leaves_no_orphans(scene: Scene) -> None:
    """Whichever comes first: a plan either went with its schedule or was not written."""
    diary = await Diary.of(scene)
    plans = [diary.fire(number, f"s{number % 7}") for number in range(60)]
    async with siblings(scene.store, 3) as [one, two, deleter]:
        answers = await asyncio.gather(
            *(one.schedules.record([plan]) for plan in plans[::2]),
            deleter.schedules.delete([NAME]),
            *(two.schedules.record([plan]) for plan in plans[1::2]),
        )
    assert [NAME] in answers
    assert await diary.history() == []
    assert await diary.schedules.cursors(NAME, [f"s{number}" for number in range(7)]) == {}
    written = [answer for answer in answers if answer != [NAME]]
    found = await scene.states([job_of(plan) for plan in plans])
    assert sum(state is not None for state in found) == sum(w == [True] for w in written)
