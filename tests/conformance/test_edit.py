"""Jobs.edit: an operator mends the arguments or the tags of a waiting job."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.job.ends import (
    End,
    HandedBack,
    PutOff,
    Reclaimed,
    Snoozed,
    TimedOut,
    WasSuspended,
    WasThrottled,
    WorkerLost,
)
from holdfast.job.ids import new_job_id
from holdfast.job.state import WAITING, JobState
from holdfast.job.unique import Unique
from tests.conformance.builders import FAILED, RAISED, REACHABLE, Scene, new_job
from tests.support.backends import siblings

NEW = '{"name":"Grace \U0001f98a"}'
NOT_BEGUN = WAITING - {JobState.SUSPENDED}
BEGUN = [
    *(RAISED, TimedOut(1.0), WorkerLost(), Reclaimed("its worker died")),
    *(HandedBack(), Snoozed(60.0), WasThrottled(60.0, "slow down"), WasSuspended(60.0)),
]


async def test_an_empty_batch_edits_nothing(scene: Scene) -> None:
    assert await scene.store.jobs.edit([], NEW, ["mended"]) == []


@pytest.mark.parametrize("state", [state for state in REACHABLE if state in NOT_BEGUN])
async def test_a_waiting_job_is_edited_where_it_is(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state, tags=("old",), headers='{"trace":"1"}')
    before = await scene.job(job)
    assert await scene.store.jobs.edit([job, job], NEW, ["mended", "twice"]) == [job]
    after = await scene.job(job)
    assert (after.args_json, after.tags) == (NEW, ("mended", "twice"))
    changed = {"args_json", "tags"}
    for field in (name for name in before.__struct_fields__ if name not in changed):
        assert getattr(after, field) == getattr(before, field), field


async def test_what_is_not_given_stays_as_it_is(scene: Scene) -> None:
    plain, tagged = await scene.enqueue(), await scene.enqueue(tags=("old",))
    await scene.store.jobs.edit([plain], tags=["new"])
    await scene.store.jobs.edit([tagged], args=NEW)
    first, second = await scene.job(plain), await scene.job(tagged)
    assert (first.args_json, first.tags) == ('{"name":"Ada"}', ("new",))
    assert (second.args_json, second.tags) == (NEW, ("old",))
    await scene.store.jobs.edit([tagged], tags=[])
    assert (await scene.job(tagged)).tags == ()


@pytest.mark.parametrize("state", [state for state in REACHABLE if state not in WAITING])
async def test_any_other_job_is_left_alone(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state)
    before = await scene.job(job)
    assert await scene.store.jobs.edit([job, new_job_id()], NEW, ["mended"]) == []
    assert await scene.job(job) == before


@pytest.mark.parametrize("end", BEGUN, ids=lambda end: type(end).__name__)
async def test_a_job_that_has_begun_keeps_its_arguments(scene: Scene, end: End) -> None:
    """Its handler may have recorded steps, and has done what it did, with those."""
    job = await scene.ended(end)
    before = await scene.job(job.id)
    assert before.state in WAITING
    fresh = await scene.enqueue()
    edited = await scene.store.jobs.edit([job.id, fresh], NEW, ["mended"])
    assert (edited, await scene.job(job.id)) == ([fresh], before)
    assert await scene.store.jobs.edit([job.id], tags=["mended"]) == [job.id]
    after = await scene.job(job.id)
    assert (after.args_json, after.tags) == (before.args_json, ("mended",))


@pytest.mark.parametrize("end", [HandedBack(begun=False), PutOff(5.0, "not here")], ids=repr)
async def test_a_job_whose_handler_was_never_called_is_edited(scene: Scene, end: End) -> None:
    job = await scene.ended(end)
    assert await scene.store.jobs.edit([job.id], NEW) == [job.id]


async def test_a_job_that_was_requeued_is_edited(scene: Scene) -> None:
    job = await scene.ended(FAILED)
    await scene.store.jobs.requeue([job.id])
    assert await scene.store.jobs.edit([job.id], NEW) == [job.id]


async def test_an_edited_job_is_claimed_in_its_place_with_the_new_arguments(scene: Scene) -> None:
    first, second = await scene.enqueue_many(2)
    await scene.store.jobs.edit([first], NEW, ["mended"])
    claimed = await scene.claim(2)
    assert [job.id for job in claimed] == [first, second]
    assert (claimed[0].args, claimed[0].tags) == (NEW, ("mended",))


async def test_an_edited_job_keeps_its_unique_key(scene: Scene) -> None:
    key = Unique("task:greet:Ada")
    job = (await scene.insert(unique=key)).id
    await scene.store.jobs.edit([job], NEW)
    assert (await scene.insert(unique=key)).id == job


async def test_an_insert_repeated_with_the_former_arguments_is_another_call(scene: Scene) -> None:
    job = new_job()
    await scene.store.jobs.insert([job])
    await scene.store.jobs.edit([job.id], NEW)
    [again] = await scene.store.jobs.insert([job])
    assert again.how == "taken"


async def test_a_job_runs_with_what_its_editor_was_told(scene: Scene) -> None:
    """A claim and an edit at the same time: if the edit was accepted, no claim has the old
    arguments."""
    async with siblings(scene.store, 1) as [other]:
        for _ in range(20):
            jobs = await scene.enqueue_many(10)
            edited, claimed = await asyncio.gather(other.jobs.edit(jobs, NEW), scene.claim(10))
            got = {job.id: job.args for job in [*claimed, *await scene.claim(10)]}
            assert got.keys() == set(jobs)
            assert {job: got[job] for job in edited} == dict.fromkeys(edited, NEW)
