"""Jobs.delete: an operator removes ended jobs with all that belongs to them."""

from __future__ import annotations

import pytest

from holdfast.job.ids import new_job_id
from holdfast.job.state import ENDED, JobState
from holdfast.job.unique import Unique
from tests.conformance.builders import FAILED, REACHABLE, RETURNED, Scene, new_job


async def test_an_empty_batch_deletes_nothing(scene: Scene) -> None:
    assert await scene.store.jobs.delete([]) == []


@pytest.mark.parametrize("state", [state for state in REACHABLE if state in ENDED])
async def test_an_ended_job_is_removed(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state)
    assert await scene.store.jobs.delete([job, job]) == [job]
    assert await scene.store.jobs.get([job]) == []
    assert await scene.store.jobs.outcomes([job]) == []
    assert await scene.store.jobs.delete([job]) == []


@pytest.mark.parametrize("state", [state for state in REACHABLE if state not in ENDED])
async def test_a_live_job_is_left_alone(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state)
    before = await scene.job(job)
    assert await scene.store.jobs.delete([job, new_job_id()]) == []
    assert await scene.job(job) == before


async def test_a_deleted_job_gives_its_key_back(scene: Scene) -> None:
    unique = Unique("k", states=frozenset(JobState))
    job = (await scene.ended(RETURNED, unique=unique)).id
    assert (await scene.insert(unique=unique)).how == "existing"
    await scene.store.jobs.delete([job])
    assert (await scene.insert(unique=unique)).how == "created"


async def test_deleting_a_former_holder_leaves_the_key_to_its_new_one(scene: Scene) -> None:
    former = (await scene.ended(FAILED, unique=Unique("k"))).id
    holder = await scene.enqueue(unique=Unique("k"))
    await scene.store.jobs.delete([former])
    again = await scene.insert(unique=Unique("k"))
    assert (again.how, again.id) == ("existing", holder)


async def test_a_deleted_id_may_be_used_anew(scene: Scene) -> None:
    job = (await scene.ended(FAILED)).id
    await scene.store.jobs.delete([job])
    await scene.store.jobs.insert([new_job(id=job)])
    again = await scene.job(job)
    assert (again.state, again.errors, again.attempts) == (JobState.READY, (), 0)
