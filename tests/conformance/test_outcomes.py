"""Jobs.outcomes: what those who wait for results ask, over and over."""

from __future__ import annotations

import msgspec

from holdfast.job.ends import Cancelled, Returned
from holdfast.job.ids import new_job_id
from holdfast.job.outcome import decide
from holdfast.job.record import ErrorEntry
from holdfast.job.state import JobState
from holdfast.store.contract.records import Outcome
from tests.conformance.builders import FAILED, RETURNED, Scene


async def test_nothing_asked_nothing_found(scene: Scene) -> None:
    assert await scene.store.jobs.outcomes([]) == []
    assert await scene.store.jobs.outcomes([new_job_id()]) == []


async def test_live_jobs_have_no_outcome(scene: Scene) -> None:
    live = (JobState.READY, JobState.SCHEDULED, JobState.RUNNING, JobState.SUSPENDED)
    jobs = [await scene.in_state(state, queue=state) for state in live]
    assert await scene.store.jobs.outcomes(jobs) == []


async def test_an_outcome_says_how_the_job_ended(scene: Scene) -> None:
    returned = (await scene.ended(Returned("[1, 2]"))).id
    failed = (await scene.ended(FAILED)).id
    cancelled = (await scene.ended(Cancelled("not needed"))).id
    found = {one.id: one for one in await scene.store.jobs.outcomes([returned, failed, cancelled])}
    [error] = (await scene.job(failed)).errors
    assert error.fingerprint
    assert found == {
        returned: Outcome(returned, JobState.SUCCEEDED, "[1, 2]", None),
        failed: Outcome(failed, JobState.FAILED, None, "give up", error.fingerprint),
        cancelled: Outcome(cancelled, JobState.CANCELLED, None, "not needed"),
    }


async def test_an_outcome_has_the_fingerprint_of_the_error_that_ended_the_job(scene: Scene) -> None:
    claimed = await scene.running()
    error = ErrorEntry(1, "Fail", "give up", fingerprint="5f3a9c0e1b2d4786")
    move = msgspec.structs.replace(decide(claimed, FAILED), error=error)
    await scene.store.jobs.finish([move])
    [outcome] = await scene.store.jobs.outcomes([claimed.id])
    assert outcome.fingerprint == "5f3a9c0e1b2d4786"
    await scene.store.jobs.requeue([claimed.id])
    await scene.finish(await scene.claim_one())
    [again] = await scene.store.jobs.outcomes([claimed.id])
    assert (again.state, again.fingerprint) == (JobState.SUCCEEDED, None)


async def test_a_job_asked_for_twice_is_answered_once(scene: Scene) -> None:
    job = (await scene.ended(RETURNED)).id
    assert len(await scene.store.jobs.outcomes([job, job])) == 1
