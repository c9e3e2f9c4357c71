"""Schedules.unfinished: what a schedule started and what is still live, by scope."""

from __future__ import annotations

import pytest

from holdfast.job.ends import HandedBack, WasSuspended
from holdfast.job.outcome import decide
from holdfast.job.state import JobState
from tests.conformance.builders import FAILED, RAISED, RETURNED, Scene
from tests.conformance.planning import NAME, Diary


@pytest.fixture
async def diary(scene: Scene) -> Diary:
    return await Diary.of(scene)


async def test_a_schedule_that_started_nothing_has_nothing_unfinished(diary: Diary) -> None:
    await diary.record(diary.plan())
    assert await diary.unfinished() == {}
    assert await diary.schedules.unfinished(NAME, []) == {}
    assert await diary.schedules.unfinished("none", [""]) == {}


async def test_jobs_come_by_scope_and_oldest_plan_first(diary: Diary) -> None:
    second = await diary.started(2, "a")
    first = await diary.started(1, "a")
    third = await diary.started(3, "a")
    other = await diary.started(1, "b")
    await diary.started(1, "c")
    assert await diary.unfinished("b", "a", "a", "none") == {
        "a": [first, second, third],
        "b": [other],
    }


async def test_the_scopes_of_other_schedules_are_theirs(scene: Scene, diary: Diary) -> None:
    other = await Diary.of(scene, "other")
    await other.started()
    assert await diary.unfinished() == {}


async def test_a_job_is_unfinished_in_every_live_state(scene: Scene, diary: Diary) -> None:
    job = await diary.started()
    assert (await diary.schedules.unfinished(NAME, [""]))[""] == [await scene.live(job)]
    claimed = await scene.claim_one()
    [running] = (await diary.schedules.unfinished(NAME, [""]))[""]
    assert running == await scene.live(job)
    assert (running.state, running.worker_id) == (JobState.RUNNING, scene.worker)
    for end in (HandedBack(), RAISED, WasSuspended(None)):
        await scene.finish(claimed, end)
        assert (await diary.schedules.unfinished(NAME, [""]))[""] == [await scene.live(job)]
        await scene.store.jobs.resume([job])
        await scene.store.jobs.reschedule([job], 0)
        claimed = await scene.claim_one()


@pytest.mark.parametrize("end", [RETURNED, FAILED], ids=["returned", "failed"])
async def test_an_ended_job_is_finished(scene: Scene, diary: Diary, end: object) -> None:
    await diary.started()
    await scene.finish(await scene.claim_one(), end)  # type: ignore[arg-type]  # one of End
    assert await diary.unfinished() == {}


async def test_a_job_that_ended_and_one_that_did_not_are_told_apart(
    scene: Scene, diary: Diary
) -> None:
    await diary.started(0)
    await scene.finish(await scene.claim_one())
    job = await diary.started(1)
    assert await diary.unfinished() == {"": [job]}


async def test_a_requeued_job_is_unfinished_again(scene: Scene, diary: Diary) -> None:
    job = await diary.started(0)
    await scene.finish(await scene.claim_one(), FAILED)
    await scene.store.jobs.requeue([job])
    assert await diary.unfinished() == {"": [job]}


async def test_so_is_one_requeued_after_later_plans(scene: Scene, diary: Diary) -> None:
    job = await diary.started(0)
    await scene.finish(await scene.claim_one(), FAILED)
    for number in (1, 2):
        await diary.started(number)
        await scene.finish(await scene.claim_one())
    await scene.store.jobs.requeue([job])
    assert await diary.unfinished() == {"": [job]}
    later = await diary.started(3)
    assert await diary.unfinished() == {"": [job, later]}


async def test_a_removed_job_is_finished(scene: Scene, diary: Diary) -> None:
    job = await diary.started()
    await scene.finish(await scene.claim_one())
    await scene.store.jobs.delete([job])
    assert await diary.unfinished() == {}
    await diary.started(1)
    assert len((await diary.unfinished())[""]) == 1


async def test_a_live_job_is_found_behind_a_long_history(scene: Scene, diary: Diary) -> None:
    job = await diary.started(0)
    held = await scene.claim_one()
    for batch in range(3):
        plans = [diary.fire(1 + batch * 250 + number) for number in range(250)]
        await diary.record(*plans)
        await scene.store.jobs.finish(
            [decide(claimed, RETURNED) for claimed in await scene.claim(250)]
        )
    assert await diary.unfinished() == {"": [job]}
    await scene.finish(held)
    assert await diary.unfinished() == {}
