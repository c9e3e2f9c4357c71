"""Jobs.requeue: an operator gives an ended job a new life, with all its attempts."""

from __future__ import annotations

import pytest

from holdfast.job.ends import WorkerLost
from holdfast.job.ids import new_job_id
from holdfast.job.policy import Policy
from holdfast.job.retry import Retry
from holdfast.job.state import ENDED, JobState
from holdfast.job.unique import Unique
from tests.conformance.builders import FAILED, RAISED, REACHABLE, RETURNED, Scene


async def test_an_empty_batch_requeues_nothing(scene: Scene) -> None:
    assert await scene.store.jobs.requeue([]) == []


@pytest.mark.parametrize("state", [state for state in REACHABLE if state in ENDED])
async def test_an_ended_job_becomes_ready(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state)
    assert await scene.store.jobs.requeue([job]) == [job]
    again = await scene.job(job)
    assert again.state is JobState.READY
    assert (again.finished_at, again.expires_at, again.result, again.reason) == (None,) * 4
    assert await scene.store.jobs.outcomes([job]) == []


@pytest.mark.parametrize("state", [state for state in REACHABLE if state not in ENDED])
async def test_a_live_job_is_left_alone(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state)
    before = await scene.job(job)
    assert await scene.store.jobs.requeue([job, new_job_id()]) == []
    assert await scene.job(job) == before


async def test_a_requeued_job_has_all_its_attempts_again(scene: Scene) -> None:
    policy = Policy(retry=Retry.constant(max_attempts=2, base=0, jitter=0))
    job = await scene.enqueue(policy=policy)
    for _ in range(2):
        await scene.store.jobs.promote_due(10)
        await scene.finish(await scene.claim_one(), RAISED)
    assert await scene.state(job) is JobState.FAILED
    await scene.store.jobs.requeue([job])
    assert (await scene.job(job)).attempts == 0
    await scene.finish(await scene.claim_one(), RAISED)
    assert await scene.state(job) is JobState.SCHEDULED


async def test_a_requeued_job_may_crash_again(scene: Scene) -> None:
    worker = await scene.hire()
    claimed = await scene.running(worker=worker, policy=Policy(max_crashes=1))
    await scene.lose(worker)
    await scene.reclaim(await scene.live(claimed.id), WorkerLost())
    await scene.store.jobs.requeue([claimed.id])
    assert (await scene.job(claimed.id)).crashes == 0


async def test_fence_and_history_are_kept(scene: Scene) -> None:
    claimed = await scene.ended(FAILED)
    before = await scene.job(claimed.id)
    await scene.store.jobs.requeue([claimed.id])
    after = await scene.job(claimed.id)
    assert (after.fence, after.errors) == (before.fence, before.errors)
    assert (await scene.claim_one()).fence > before.fence


async def test_the_old_attempt_cannot_end_the_new_life(scene: Scene) -> None:
    claimed = await scene.ended(FAILED)
    await scene.store.jobs.requeue([claimed.id])
    assert not (await scene.finish(claimed, RETURNED)).accepted
    await scene.claim_one()
    assert not (await scene.finish(claimed, RETURNED)).accepted


async def test_a_requeued_job_goes_to_the_end_of_the_line(scene: Scene) -> None:
    claimed = await scene.ended(FAILED)
    waiting = await scene.enqueue()
    await scene.store.jobs.requeue([claimed.id])
    assert await scene.line() == [waiting, claimed.id]


async def test_priority_and_queue_are_kept(scene: Scene) -> None:
    claimed = await scene.ended(FAILED, queue="mail", priority=-3)
    await scene.store.jobs.requeue([claimed.id])
    again = await scene.claim_one("mail")
    assert (again.priority, again.args, again.policy) == (-3, claimed.args, claimed.policy)


async def test_a_job_is_requeued_once(scene: Scene) -> None:
    job = await scene.in_state(JobState.FAILED)
    assert await scene.store.jobs.requeue([job, job]) == [job]
    assert await scene.store.jobs.requeue([job]) == []
    assert await scene.line() == [job]


async def test_a_batch_is_judged_item_by_item(scene: Scene) -> None:
    failed, running = (
        await scene.in_state(JobState.FAILED, queue="a"),
        await scene.in_state(JobState.RUNNING, queue="b"),
    )
    succeeded = await scene.in_state(JobState.SUCCEEDED, queue="c")
    assert set(await scene.store.jobs.requeue([failed, running, succeeded])) == {failed, succeeded}


async def test_a_requeued_job_can_succeed_and_be_requeued_again(scene: Scene) -> None:
    claimed = await scene.ended(FAILED)
    for _ in range(3):
        before = claimed.fence
        await scene.store.jobs.requeue([claimed.id])
        claimed = await scene.claim_one()
        assert claimed.fence > before
        assert (await scene.finish(claimed, RETURNED)).accepted
    assert (await scene.job(claimed.id)).fence == claimed.fence


async def test_a_job_whose_key_another_holds_by_now_stays_ended(scene: Scene) -> None:
    claimed = await scene.ended(FAILED, unique=Unique("k"))
    holder = await scene.enqueue(unique=Unique("k"))
    assert await scene.store.jobs.requeue([claimed.id]) == []
    assert await scene.states([claimed.id, holder]) == [JobState.FAILED, JobState.READY]


async def test_a_requeued_job_holds_its_key_again(scene: Scene) -> None:
    first = await scene.ended(FAILED, unique=Unique("k"))
    await scene.ended(RETURNED, unique=Unique("k"))
    assert await scene.store.jobs.requeue([first.id]) == [first.id]
    again = await scene.insert(unique=Unique("k"))
    assert (again.how, again.id) == ("existing", first.id)


@pytest.mark.parametrize("older_first", [True, False])
async def test_of_two_jobs_with_one_key_the_first_that_is_named_is_requeued(
    scene: Scene, older_first: bool
) -> None:
    older = await scene.ended(FAILED, unique=Unique("k"))
    newer = await scene.ended(FAILED, unique=Unique("k"))
    named = [older.id, newer.id] if older_first else [newer.id, older.id]
    assert await scene.store.jobs.requeue(named) == named[:1]
