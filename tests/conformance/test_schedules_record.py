"""Schedules.record: one row for each plan, with its job and its cancels, by whoever comes first."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from holdfast.job.ends import WasSuspended
from holdfast.job.state import JobState
from holdfast.schedule.model import OPEN, Decision, Plan
from holdfast.store.contract.filters import JobFilter
from tests.conformance.builders import QUEUE, Scene, ids
from tests.conformance.planning import NAME, Diary, definition, instants, job_of
from tests.support.backends import siblings

FINAL = sorted(set(Decision) - OPEN)


@pytest.fixture
async def diary(scene: Scene) -> Diary:
    return await Diary.of(scene)


async def test_no_plans_record_nothing(scene: Scene) -> None:
    assert await scene.store.schedules.record([]) == []


async def test_a_plan_that_fires_has_a_row_and_its_job(scene: Scene, diary: Diary) -> None:
    job = await diary.started(reason="in time", job={"queue": QUEUE, "tags": ("t",), "priority": 4})
    entry = await diary.entry()
    assert (entry.schedule, entry.scope, entry.at) == (NAME, "", diary.at(0))
    assert (entry.decision, entry.reason) == (Decision.FIRED, "in time")
    assert entry.recorded_at == scene.clock.now
    assert entry.job_id == job
    found = await scene.job(job)
    assert (found.state, found.tags, found.priority) == (JobState.READY, ("t",), 4)


async def test_a_delayed_job_is_scheduled(scene: Scene, diary: Diary) -> None:
    later = await diary.started(0, job={"delay": 60.0})
    dated = await diary.started(1, job={"run_at": scene.after(30)})
    assert await scene.states([later, dated]) == [JobState.SCHEDULED] * 2


@pytest.mark.parametrize("decision", sorted(set(Decision) - {Decision.FIRED}))
async def test_a_plan_that_does_not_fire_starts_nothing(
    scene: Scene, diary: Diary, decision: Decision
) -> None:
    plan = diary.plan(decision=decision, reason="because", job=diary.job())
    assert await diary.record(plan) == [True]
    entry = await diary.entry()
    assert (entry.decision, entry.reason, entry.job_id) == (decision, "because", None)
    assert await scene.state(job_of(plan)) is None


@pytest.mark.parametrize("first", FINAL)
@pytest.mark.parametrize("second", [Decision.FIRED, Decision.SKIPPED, Decision.FAILED])
async def test_a_final_row_is_never_overwritten(
    scene: Scene, diary: Diary, first: Decision, second: Decision
) -> None:
    await diary.record(diary.plan(decision=first, reason="first"))
    late = diary.plan(decision=second, reason="second", job=diary.job())
    assert await diary.record(late) == [False]
    assert (await diary.entry()).reason == "first"
    assert await scene.state(job_of(late)) is None


@pytest.mark.parametrize("first", sorted(OPEN))
async def test_an_open_row_is_overwritten_once(scene: Scene, diary: Diary, first: Decision) -> None:
    await diary.record(diary.plan(decision=first, reason="no room"))
    scene.clock.advance(60)
    plan, late = diary.fire(reason="at last"), diary.fire(reason="too late")
    assert await diary.record(plan) == [True]
    assert await diary.record(late) == [False]
    entry = await diary.entry()
    assert (entry.decision, entry.reason, entry.job_id) == (
        Decision.FIRED,
        "at last",
        job_of(plan),
    )
    assert entry.recorded_at == scene.clock.now
    assert await scene.states([job_of(plan), job_of(late)]) == [JobState.READY, None]
    assert await diary.unfinished() == {"": [job_of(plan)]}


@pytest.mark.parametrize("decision", sorted(OPEN))
async def test_an_open_row_is_not_overwritten_by_the_same_decision(
    diary: Diary, decision: Decision
) -> None:
    await diary.record(diary.plan(decision=decision, reason="first"))
    assert await diary.record(diary.plan(decision=decision, reason="second")) == [False]
    assert (await diary.entry()).reason == "first"


async def test_a_waiting_plan_may_come_to_fail_and_then_to_fire(diary: Diary) -> None:
    for decision in (Decision.WAITING, Decision.FAILED, Decision.WAITING, Decision.FIRED):
        assert await diary.record(diary.plan(decision=decision)) == [True]
    assert (await diary.entry()).decision is Decision.FIRED


async def test_an_overwritten_row_leaves_the_cursor_where_it_is(diary: Diary) -> None:
    await diary.record(diary.plan(0, decision=Decision.FAILED), diary.plan(5))
    assert await diary.record(diary.fire(0)) == [True]
    assert await diary.cursor() == diary.at(5)


async def test_of_two_plans_of_a_batch_for_one_row_the_first_counts(
    scene: Scene, diary: Diary
) -> None:
    first, second = diary.fire(reason="first"), diary.fire(reason="second")
    assert await diary.record(first, second, first) == [True, False, False]
    assert (await diary.entry()).job_id == job_of(first)
    assert await scene.states([job_of(first), job_of(second)]) == [JobState.READY, None]


async def test_one_instant_is_one_row_whatever_zone_tells_it(diary: Diary) -> None:
    plan = diary.fire()
    there = plan.at.astimezone(ZoneInfo("Asia/Kathmandu"))
    same = Plan(NAME, "", there, Decision.FIRED, job=diary.job())
    assert await diary.record(plan, same) == [True, False]
    assert await diary.record(same) == [False]


async def test_both_passes_of_a_repeated_hour_have_their_row(diary: Diary) -> None:
    zone = ZoneInfo("Europe/Berlin")
    first = diary.at(0).replace(month=10, day=29, hour=0, minute=30)
    wall = [moment.astimezone(zone) for moment in (first, first + timedelta(hours=1))]
    assert wall[0].replace(fold=0) == wall[1].replace(fold=0)
    plans = [Plan(NAME, "", moment, Decision.FIRED) for moment in wall]
    assert await diary.record(*plans) == [True, True]
    assert await diary.record(*plans) == [False, False]
    assert len(await diary.history()) == 2


async def test_scopes_and_schedules_do_not_share_rows(scene: Scene, diary: Diary) -> None:
    other = await Diary.of(scene, "other")
    plans = [diary.fire(scope="a"), diary.fire(scope="b"), other.fire(scope="a"), diary.fire()]
    assert await diary.record(*plans) == [True] * 4
    assert await scene.states([job_of(plan) for plan in plans]) == [JobState.READY] * 4


async def test_answers_come_in_the_order_asked(diary: Diary) -> None:
    await diary.record(diary.fire(3), diary.fire(1))
    order = [4, 3, 0, 1, 2]
    assert await diary.record(*(diary.fire(number) for number in order)) == [
        number in (0, 2, 4) for number in order
    ]


async def test_nothing_is_written_for_a_schedule_that_is_gone(scene: Scene, diary: Diary) -> None:
    gone = Diary(scene, "gone")
    lost, kept = gone.fire(), diary.fire()
    assert await scene.store.schedules.record([lost, kept]) == [False, True]
    assert await gone.history() == []
    assert await gone.cursor() is None
    assert await scene.states([job_of(lost), job_of(kept)]) == [None, JobState.READY]


async def test_names_scopes_and_reasons_may_be_any_text(scene: Scene) -> None:
    diary = await Diary.of(scene, "nächtlich 🌙")
    scope = 'mandant "ß"\n🦊'
    plan = diary.fire(scope=scope, reason="spät \x00 \ud800")
    assert await diary.record(plan) == [True]
    entry = await diary.entry(scope=scope)
    assert (entry.scope, entry.job_id) == (scope, job_of(plan))
    assert entry.reason.startswith("spät ")
    assert await diary.cursor(scope) == diary.at(0)
    assert await diary.unfinished(scope) == {scope: [job_of(plan)]}


@pytest.mark.parametrize("decision", sorted(set(Decision)))
async def test_a_plan_that_started_nothing_is_made_up_for_out_of_turn_once(
    scene: Scene, diary: Diary, decision: Decision
) -> None:
    await diary.record(diary.plan(0, decision=decision), diary.plan(5))
    plan, late = diary.fire(0, moves_cursor=False), diary.fire(0, moves_cursor=False)
    assert await diary.record(plan) == [True]
    assert await diary.record(late) == [False]
    entry = await diary.entry(0)
    assert (entry.decision, entry.job_id) == (Decision.FIRED, job_of(plan))
    assert await scene.states([job_of(plan), job_of(late)]) == [JobState.READY, None]
    assert await diary.cursor() == diary.at(5)


async def test_a_plan_that_started_a_job_is_not_started_again_out_of_turn(diary: Diary) -> None:
    job = await diary.started()
    assert await diary.record(diary.fire(moves_cursor=False)) == [False]
    assert (await diary.entry()).job_id == job


async def test_only_what_fires_is_made_up_for(diary: Diary) -> None:
    await diary.record(diary.plan(decision=Decision.MISSED))
    skipped = diary.plan(decision=Decision.SKIPPED, moves_cursor=False)
    assert await diary.record(skipped) == [False]
    assert (await diary.entry()).decision is Decision.MISSED


async def test_in_a_batch_only_those_out_of_turn_make_up(diary: Diary) -> None:
    await diary.record(*(diary.plan(n, decision=Decision.MISSED) for n in range(2)))
    assert await diary.record(diary.fire(0), diary.fire(1, moves_cursor=False)) == [False, True]


# Cancelling predecessors


@pytest.mark.parametrize("state", [JobState.READY, JobState.SCHEDULED, JobState.SUSPENDED])
async def test_a_waiting_predecessor_ends_as_replaced(
    scene: Scene, diary: Diary, state: JobState
) -> None:
    old = await diary.started(0, job={"delay": 60.0} if state is JobState.SCHEDULED else {})
    if state is JobState.SUSPENDED:
        await scene.finish(await scene.claim_one(), WasSuspended(None))
    assert await scene.state(old) is state
    new = await diary.started(1, cancel=(old,))
    found = await scene.job(old)
    assert found.state is JobState.CANCELLED
    assert found.reason == f"replaced by the plan of {diary.at(1).isoformat()}"
    assert await diary.unfinished() == {"": [new]}


async def test_a_running_predecessor_is_asked_to_stop(scene: Scene, diary: Diary) -> None:
    old = await diary.started(0)
    claimed = await scene.claim_one()
    await diary.started(1, cancel=(old,))
    found = await scene.job(old)
    assert (found.state, found.cancel_requested_at) == (JobState.RUNNING, scene.clock.now)
    assert (await scene.finish(claimed)).accepted


async def test_an_ended_or_unknown_predecessor_is_left_alone(scene: Scene, diary: Diary) -> None:
    old = await diary.started(0)
    await scene.finish(await scene.claim_one())
    await diary.started(1, cancel=(old, diary.job().id))
    assert await scene.state(old) is JobState.SUCCEEDED


async def test_a_plan_that_was_there_already_cancels_nothing(scene: Scene, diary: Diary) -> None:
    old = await diary.started(0)
    await diary.started(1)
    assert await diary.record(diary.fire(1, cancel=(old,))) == [False]
    assert await scene.state(old) is JobState.READY


async def test_a_plan_may_replace_the_one_before_it_in_its_batch(
    scene: Scene, diary: Diary
) -> None:
    first = diary.fire(0)
    second = diary.fire(1, cancel=(job_of(first),))
    third = diary.fire(2, cancel=(job_of(first), job_of(second)))
    assert await diary.record(first, second, third) == [True] * 3
    states = await scene.states([job_of(plan) for plan in (first, second, third)])
    assert states == [JobState.CANCELLED, JobState.CANCELLED, JobState.READY]


async def test_a_replaced_job_is_not_claimed(scene: Scene, diary: Diary) -> None:
    old = await diary.started(0)
    new = await diary.started(1, cancel=(old,))
    assert ids(await scene.claim(10)) == [new]


# Decisions that rest on what runs


async def test_a_plan_that_rests_on_nothing_running_is_refused_while_something_runs(
    scene: Scene, diary: Diary
) -> None:
    running = await diary.started(0)
    late, other = diary.fire(1, beside=()), diary.fire(1, "other", beside=())
    skipped = diary.plan(2, decision=Decision.SKIPPED, beside=())
    assert await diary.record(late, other, skipped) == [False, True, False]
    assert await scene.states([job_of(late), job_of(other)]) == [None, JobState.READY]
    assert await diary.cursor() == diary.at(0)
    assert await diary.record(diary.fire(1, beside=(running,))) == [True]


async def test_a_plan_that_rests_on_a_job_is_refused_when_that_has_ended(
    scene: Scene, diary: Diary
) -> None:
    old = await diary.started(0)
    await scene.finish(await scene.claim_one())
    skipped = diary.plan(1, decision=Decision.SKIPPED, beside=(old,))
    replacing = diary.fire(1, beside=(old,), cancel=(old,))
    assert await diary.record(skipped, replacing) == [False, False]
    assert await diary.record(replacing) == [False]
    assert await diary.record(diary.fire(1, beside=())) == [True]


async def test_plans_of_a_batch_rest_on_what_ran_before_it(diary: Diary) -> None:
    running = await diary.started(0)
    first = diary.fire(1, beside=(running,))
    second = diary.plan(2, decision=Decision.SKIPPED, beside=(running,))
    assert await diary.record(first, second) == [True, True]


async def test_of_many_plans_that_rest_on_nothing_running_one_starts(
    scene: Scene, diary: Diary
) -> None:
    """One of the recorders asks nothing, as a trigger does: the others see what it started."""
    await diary.record(diary.plan(0))
    async with siblings(scene.store, 6) as others:
        plans = [diary.fire(n, beside=()) for n in range(1, 6)]
        plans.append(diary.fire(9, moves_cursor=False))
        answers = await asyncio.gather(
            *(o.schedules.record([plan]) for o, plan in zip(others, plans, strict=True))
        )
    assert answers[-1] == [True]
    based = [wrote for answer in answers[:-1] for wrote in answer]
    assert sum(based) <= 1
    assert await scene.store.jobs.count(JobFilter()) == {JobState.READY: 1 + sum(based)}


# Cursors


async def test_a_scope_without_plans_has_no_cursor(diary: Diary) -> None:
    await diary.record(diary.plan(scope="a"))
    assert await diary.schedules.cursors(NAME, ["a", "b"]) == {"a": diary.at(0)}
    assert await diary.schedules.cursors(NAME, []) == {}
    assert await diary.schedules.cursors("none", ["a"]) == {}


async def test_the_cursor_is_at_the_newest_plan_whatever_was_decided(diary: Diary) -> None:
    for number, decision in enumerate(Decision):
        await diary.record(diary.plan(number, decision=decision))
        assert await diary.cursor() == diary.at(number)


async def test_the_cursor_never_goes_back(diary: Diary) -> None:
    await diary.record(diary.plan(5), diary.plan(3))
    assert await diary.cursor() == diary.at(5)
    await diary.record(diary.plan(4))
    assert await diary.cursor() == diary.at(5)


async def test_what_is_started_out_of_turn_leaves_the_cursor(diary: Diary) -> None:
    await diary.record(diary.fire(5, moves_cursor=False))
    assert await diary.cursor() is None
    await diary.record(diary.fire(3), diary.fire(7, moves_cursor=False))
    assert await diary.cursor() == diary.at(3)
    assert len(await diary.history()) == 3


async def test_a_cursor_may_advance_without_a_row(diary: Diary) -> None:
    await diary.schedules.advance(NAME, "a", diary.at(3))
    await diary.schedules.advance(NAME, "a", diary.at(2))
    assert await diary.cursor("a") == diary.at(3)
    await diary.schedules.advance(NAME, "a", diary.at(4))
    assert await diary.schedules.cursors(NAME, ["", "a"]) == {"a": diary.at(4)}
    assert await diary.history() == []


async def test_cursors_that_lie_far_behind_that_of_no_scope_are_forgotten(scene: Scene) -> None:
    diary = await Diary.of(scene, keep=120.0)
    other = await Diary.of(scene, "other", keep=120.0)
    await diary.record(*(diary.plan(n, f"s{n}") for n in range(5)), other.plan(0, "s0"))
    await diary.schedules.advance(NAME, "s4", diary.at(100))
    scopes = [f"s{n}" for n in range(5)]
    assert len(await diary.schedules.cursors(NAME, scopes)) == 5
    await diary.schedules.advance(NAME, "", diary.at(4))
    assert set(await diary.schedules.cursors(NAME, ["", *scopes])) == {"", "s2", "s3", "s4"}
    assert await diary.schedules.cursors("other", ["s0"]) == {"s0": diary.at(0)}


async def test_the_cursor_of_a_schedule_that_is_gone_does_not_advance(diary: Diary) -> None:
    await diary.schedules.advance("gone", "", diary.at(3))
    assert await diary.schedules.cursors("gone", [""]) == {}


async def test_a_cursor_tells_microseconds(scene: Scene, diary: Diary) -> None:
    at = scene.clock.now.replace(microsecond=123_457)
    await scene.store.schedules.record([Plan(NAME, "", at, Decision.FIRED)])
    assert await diary.cursor() == at
    assert instants(await diary.history()) == [at]


# Many


async def test_thousands_are_recorded_at_once(scene: Scene, diary: Diary) -> None:
    plans = [diary.fire(scope=f"tenant {number}") for number in range(3000)]
    random.Random(1).shuffle(plans)
    assert await diary.record(*plans) == [True] * 3000
    assert await diary.record(*plans) == [False] * 3000
    assert await scene.store.jobs.count(JobFilter()) == {JobState.READY: 3000}
    scopes = [plan.scope for plan in plans]
    assert len(await diary.schedules.cursors(NAME, scopes)) == 3000
    unfinished = await diary.unfinished(*scopes)
    assert unfinished == {plan.scope: [job_of(plan)] for plan in plans}


async def test_of_many_recorders_one_writes_each_plan(scene: Scene, diary: Diary) -> None:
    """In whatever order each of them brings the plans, and none waits for another in a ring."""

    def all_plans() -> list[Plan]:
        mine = [diary.fire(number, f"s{scope}") for number in range(3) for scope in range(40)]
        random.shuffle(mine)
        return mine

    async with siblings(scene.store, 8) as others:
        batches = [all_plans() for _ in others]
        answers = await asyncio.gather(
            *(other.schedules.record(batch) for other, batch in zip(others, batches, strict=True))
        )
    written = [
        plan
        for batch, answer in zip(batches, answers, strict=True)
        for plan, wrote in zip(batch, answer, strict=True)
        if wrote
    ]
    assert len({(plan.scope, plan.at) for plan in written}) == len(written) == 120
    assert await scene.store.jobs.count(JobFilter()) == {JobState.READY: 120}
    rows = await diary.history(limit=1000)
    assert {row.job_id for row in rows} == {job_of(plan) for plan in written}
    assert len(rows) == 120


async def test_of_many_who_retry_a_failed_plan_one_starts_it(scene: Scene, diary: Diary) -> None:
    await diary.record(*(diary.plan(n, decision=Decision.FAILED) for n in range(20)))
    async with siblings(scene.store, 4) as others:
        answers = await asyncio.gather(
            *(other.schedules.record([diary.fire(n) for n in range(20)]) for other in others)
        )
    assert [sum(wrote) for wrote in zip(*answers, strict=True)] == [1] * 20
    assert await scene.store.jobs.count(JobFilter()) == {JobState.READY: 20}


async def test_recorders_of_other_plans_of_the_same_scopes_all_write(
    scene: Scene, diary: Diary
) -> None:
    async with siblings(scene.store, 4) as others:
        batches = [[diary.fire(n, f"s{s}") for s in range(50)] for n in range(4)]
        answers = await asyncio.gather(
            *(o.schedules.record(batch[:: (-1) ** n]) for n, (o, batch) in
              enumerate(zip(others, batches, strict=True)))
        )  # fmt: skip
    assert answers == [[True] * 50] * 4
    scopes = [f"s{s}" for s in range(50)]
    assert set((await diary.schedules.cursors(NAME, scopes)).values()) == {diary.at(3)}
    assert {len(jobs) for jobs in (await diary.unfinished(*scopes)).values()} == {4}


async def test_a_schedule_may_be_paused_edited_and_complained_about_meanwhile(
    scene: Scene, diary: Diary
) -> None:
    async with siblings(scene.store, 2) as [one, two]:
        await asyncio.gather(
            one.schedules.record([diary.fire(n) for n in range(100)]),
            two.schedules.pause([NAME]),
            two.schedules.put(NAME, definition("0 4 * * *")),
            two.schedules.complain(NAME, "hm"),
            two.schedules.declare({NAME: definition()}),
        )
    assert len(await diary.history(limit=1000)) == 100
    found = await diary.schedule()
    assert (found.paused, found.edited, found.error) == (True, True, "hm")
