"""Schedules.prune_ledger: the ledger is kept as each schedule says, and cursors for ever."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.schedule.model import OPEN, Decision
from tests.conformance.builders import Scene
from tests.conformance.planning import NAME, Diary, definition, instants
from tests.support.backends import siblings


async def test_an_empty_ledger_has_nothing_to_prune(scene: Scene) -> None:
    assert await scene.store.schedules.prune_ledger(10) == 0


async def test_a_row_is_pruned_when_its_time_is_over_and_not_before(scene: Scene) -> None:
    diary = await Diary.of(scene, keep=60.0)
    await diary.record(diary.plan(decision=Decision.SKIPPED))
    scene.clock.advance(59)
    assert await diary.schedules.prune_ledger(10) == 0
    scene.clock.advance(2)
    assert await diary.schedules.prune_ledger(10) == 1
    assert await diary.history() == []


async def test_the_cursor_stays(scene: Scene) -> None:
    diary = await Diary.of(scene, keep=60.0)
    await diary.record(diary.plan(3))
    cursor = await diary.cursor()
    scene.clock.advance(61)
    await diary.schedules.prune_ledger(10)
    assert cursor is not None
    assert await diary.cursor() == cursor


async def test_every_schedule_has_a_retention_of_its_own(scene: Scene) -> None:
    short, long = await Diary.of(scene, keep=60.0), await Diary.of(scene, "long", keep=600.0)
    await short.record(short.plan(), long.plan())
    scene.clock.advance(61)
    assert await scene.store.schedules.prune_ledger(10) == 1
    assert len(await long.history()) == 1


async def test_a_row_is_kept_as_was_said_when_it_was_recorded(scene: Scene) -> None:
    diary = await Diary.of(scene, keep=60.0)
    await diary.record(diary.plan(0))
    await scene.store.schedules.put(NAME, definition(keep=600.0))
    await diary.record(diary.plan(1))
    kept = diary.at(1)
    scene.clock.advance(61)
    assert await diary.schedules.prune_ledger(10) == 1
    assert instants(await diary.history()) == [kept]


async def test_a_retry_is_kept_from_when_it_was_recorded(scene: Scene) -> None:
    diary = await Diary.of(scene, keep=60.0)
    plan = diary.plan(decision=Decision.FAILED)
    again = diary.plan(decision=Decision.MISSED)
    await diary.record(plan)
    scene.clock.advance(50)
    await diary.record(again)
    scene.clock.advance(50)
    assert await diary.schedules.prune_ledger(10) == 0


async def test_any_length_of_time_can_be_asked_for(scene: Scene) -> None:
    diary = await Diary.of(scene, keep=1e15)
    await diary.record(diary.plan())
    scene.clock.advance(1e9)
    assert await diary.schedules.prune_ledger(10) == 0
    assert len(await diary.history()) == 1


async def test_a_bite_is_no_larger_than_asked(scene: Scene) -> None:
    diary = await Diary.of(scene, keep=60.0)
    await diary.record(*(diary.plan(number) for number in range(25)))
    scene.clock.advance(61)
    assert [await diary.schedules.prune_ledger(10) for _ in range(4)] == [10, 10, 5, 0]


async def test_the_row_of_a_live_job_stays_until_it_ends(scene: Scene) -> None:
    diary = await Diary.of(scene, keep=60.0)
    plan = diary.fire()
    await diary.record(plan, *(diary.plan(number) for number in range(1, 5)))
    scene.clock.advance(61)
    assert await diary.schedules.prune_ledger(4) == 4
    assert await diary.schedules.prune_ledger(4) == 0
    assert instants(await diary.history()) == [plan.at]
    assert len((await diary.unfinished())[""]) == 1
    await scene.finish(await scene.claim_one())
    assert await diary.schedules.prune_ledger(4) == 1
    assert await diary.history() == []


@pytest.mark.parametrize("decision", sorted(OPEN))
async def test_the_row_of_an_open_plan_stays_until_it_is_decided(
    scene: Scene, decision: Decision
) -> None:
    diary = await Diary.of(scene, keep=60.0)
    await diary.record(diary.plan(0, decision=decision), diary.plan(1))
    scene.clock.advance(61)
    assert await diary.schedules.prune_ledger(1) == 1
    assert await diary.schedules.prune_ledger(10) == 0
    assert instants(await diary.schedules.failed_plans(NAME, 10)) == [diary.at(0)]
    await diary.record(diary.plan(0, decision=Decision.MISSED))
    scene.clock.advance(61)
    assert await diary.schedules.prune_ledger(10) == 1


async def test_the_oldest_and_the_newest_that_fired_and_were_pruned_are_remembered(
    scene: Scene,
) -> None:
    diary = await Diary.of(scene, keep=60.0)
    other = await Diary.of(scene, "other", keep=60.0)
    await diary.record(*(diary.plan(n) for n in (3, 4, 5)), diary.plan(9, decision=Decision.MISSED))
    await other.record(other.plan(decision=Decision.SKIPPED))
    scene.clock.advance(61)
    await diary.schedules.prune_ledger(10)
    found = await diary.schedule()
    assert (found.pruned_from, found.pruned_until) == (diary.at(3), diary.at(5))
    await diary.record(diary.plan(1), diary.plan(4), diary.plan(7))
    scene.clock.advance(61)
    await diary.schedules.prune_ledger(10)
    found = await diary.schedule()
    assert (found.pruned_from, found.pruned_until) == (diary.at(1), diary.at(7))
    assert (await other.schedule()).pruned_from is None
    await diary.schedules.delete([NAME])
    await Diary.of(scene)
    assert (await diary.schedule()).pruned_until is None


async def test_jobs_are_kept_as_their_own_policy_says(scene: Scene) -> None:
    diary = await Diary.of(scene, keep=60.0)
    job = await diary.started()
    await scene.finish(await scene.claim_one())
    scene.clock.advance(61)
    assert await diary.schedules.prune_ledger(10) == 1
    assert await scene.state(job) is not None
    await scene.store.jobs.requeue([job])
    assert await diary.unfinished() == {}


async def test_many_pruners_prune_a_row_once(scene: Scene) -> None:
    diary = await Diary.of(scene, keep=60.0)
    await diary.record(*(diary.plan(number) for number in range(60)))
    scene.clock.advance(61)
    async with siblings(scene.store, 3) as others:
        pruned = await asyncio.gather(*(other.schedules.prune_ledger(100) for other in others))
    assert sum(pruned) + await diary.schedules.prune_ledger(100) == 60
