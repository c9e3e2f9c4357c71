"""Schedules.history and failed_plans: the ledger as people and evaluators read it."""

from __future__ import annotations

import pytest

from holdfast.job.policy import Policy, Retention
from holdfast.job.state import JobState
from holdfast.schedule.model import Decision
from tests.conformance.builders import FAILED, RAISED, Scene
from tests.conformance.planning import NAME, Diary, instants


@pytest.fixture
async def diary(scene: Scene) -> Diary:
    return await Diary.of(scene)


async def test_a_schedule_without_plans_has_no_history(diary: Diary) -> None:
    assert await diary.history() == []
    assert await diary.schedules.history("none") == []
    assert await diary.schedules.failed_plans(NAME, 10) == []


async def test_history_is_newest_first_then_by_scope(diary: Diary) -> None:
    order = [(1, "b"), (3, "a"), (2, "a"), (1, "a"), (3, "c")]
    await diary.record(*(diary.plan(number, scope) for number, scope in order))
    found = [(entry.at, entry.scope) for entry in await diary.history()]
    assert found == [
        (diary.at(number), scope)
        for number, scope in [(3, "a"), (3, "c"), (2, "a"), (1, "a"), (1, "b")]
    ]


async def test_history_of_one_scope_is_only_that(diary: Diary) -> None:
    await diary.record(*(diary.plan(number, scope) for number in range(3) for scope in ("", "a")))
    assert instants(await diary.history(scope="a")) == [diary.at(n) for n in (2, 1, 0)]
    assert {entry.scope for entry in await diary.history(scope="")} == {""}
    assert len(await diary.history()) == 6


@pytest.mark.parametrize("scope", [None, ""])
async def test_history_is_paged_by_plan_time(diary: Diary, scope: str | None) -> None:
    await diary.record(*(diary.plan(number) for number in range(7)))
    seen = []
    before = None
    while page := await diary.history(scope=scope, limit=3, before=before):
        assert len(page) <= 3
        seen += instants(page)
        before = page[-1].at
    assert seen == [diary.at(number) for number in range(6, -1, -1)]
    assert await diary.history(scope=scope, limit=0) == []


async def test_the_others_are_not_in_it(scene: Scene, diary: Diary) -> None:
    other = await Diary.of(scene, "other")
    await other.record(other.plan())
    assert await diary.history() == []


async def test_an_entry_follows_its_job(scene: Scene, diary: Diary) -> None:
    job = await diary.started()
    waiting = await diary.entry()
    assert (waiting.job_id, waiting.state, waiting.attempts) == (job, JobState.READY, 0)
    scene.clock.advance(1)
    claimed = await scene.claim_one()
    running = await diary.entry()
    assert (running.state, running.claimed_at) == (JobState.RUNNING, scene.clock.now)
    await scene.finish(claimed, RAISED)
    retried = await diary.entry()
    assert (retried.state, retried.attempts) == (JobState.SCHEDULED, 1)
    assert retried.error == "ValueError: no such user"
    scene.clock.advance(11)
    await scene.store.jobs.promote_due(10)
    claimed = await scene.claim_one()
    began, ended = scene.clock.now, scene.clock.advance(2)
    await scene.finish(claimed)
    entry = await diary.entry()
    assert (entry.state, entry.attempts, entry.result) == (JobState.SUCCEEDED, 2, "done")
    assert (entry.claimed_at, entry.finished_at) == (began, ended)


async def test_an_entry_tells_the_last_error(scene: Scene, diary: Diary) -> None:
    job = await diary.started()
    await scene.finish(await scene.claim_one(), RAISED)
    await scene.store.jobs.reschedule([job], 0)
    await scene.finish(await scene.claim_one(), FAILED)
    entry = await diary.entry()
    assert (entry.state, entry.error) == (JobState.FAILED, "Fail: give up")


@pytest.mark.parametrize("verb", ["prune", "delete"])
async def test_an_entry_outlives_its_job(scene: Scene, diary: Diary, verb: str) -> None:
    policy = Policy(retention=Retention(succeeded=1))
    job = await diary.started(job={"policy": policy})
    await scene.finish(await scene.claim_one())
    scene.clock.advance(2)
    await (scene.store.jobs.prune(10) if verb == "prune" else scene.store.jobs.delete([job]))
    entry = await diary.entry()
    assert (entry.decision, entry.job_id) == (Decision.FIRED, job)
    assert (entry.state, entry.attempts, entry.result, entry.error) == (None, None, None, None)


async def test_failed_and_waiting_plans_are_found_oldest_first(scene: Scene, diary: Diary) -> None:
    for number, decision in enumerate(Decision):
        await diary.record(diary.plan(number, "b", decision=decision, reason="why"))
        await diary.record(diary.plan(number, "a", decision=decision, reason="why"))
    found = await diary.schedules.failed_plans(NAME, 100)
    numbers = [n for n, d in enumerate(Decision) if d in (Decision.FAILED, Decision.WAITING)]
    assert [(one.at, one.scope) for one in found] == [
        (diary.at(number), scope) for number in numbers for scope in ("a", "b")
    ]
    assert found[0] == await diary.entry(numbers[0], "a")
    other = await Diary.of(scene, "other")
    assert await other.schedules.failed_plans("other", 100) == []


async def test_an_older_failed_plan_is_not_stranded_by_newer_ones(diary: Diary) -> None:
    await diary.record(diary.plan(0, decision=Decision.FAILED))
    await diary.record(*(diary.fire(number) for number in range(1, 50)))
    [found] = await diary.schedules.failed_plans(NAME, 10)
    assert found.at == diary.at(0)
    await diary.record(diary.fire(0))
    assert await diary.schedules.failed_plans(NAME, 10) == []


async def test_failed_plans_are_paged_so_that_none_hides_another(diary: Diary) -> None:
    await diary.record(
        *(
            diary.plan(number, scope, decision=Decision.FAILED)
            for number in range(4)
            for scope in ("c", "", "a")
        )
    )
    seen: list[tuple[object, str]] = []
    after = None
    while page := await diary.schedules.failed_plans(NAME, 5, after):
        assert len(page) <= 5
        after = (page[-1].at, page[-1].scope)
        seen += [(one.at, one.scope) for one in page]
    assert seen == [(diary.at(number), scope) for number in range(4) for scope in ("", "a", "c")]
