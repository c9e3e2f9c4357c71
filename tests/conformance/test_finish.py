"""Jobs.finish: guarded moves. What is refused changes nothing and is told the truth."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from holdfast.errors import RowRefused
from holdfast.job.ends import (
    Cancelled,
    DeadlinePassed,
    End,
    HandedBack,
    Raised,
    Returned,
    Snoozed,
    TimedOut,
    WasSuspended,
    WasThrottled,
)
from holdfast.job.ids import new_job_id
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy, Retention
from holdfast.job.state import JobState
from holdfast.job.transition import Transition
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.records import Verdict
from tests.conformance.builders import (
    FAILED,
    QUEUE,
    RAISED,
    RETURNED,
    Scene,
    accepted,
    ids,
)
from tests.support.backends import siblings


async def test_an_empty_batch_finishes_nothing(scene: Scene) -> None:
    assert await scene.store.jobs.finish([]) == []


async def test_a_return_ends_the_job_with_its_result(scene: Scene) -> None:
    claimed = await scene.running()
    scene.clock.advance(5)
    assert (await scene.finish(claimed, Returned('{"n":1}'))).accepted
    job = await scene.job(claimed.id)
    assert (job.state, job.result, job.finished_at) == (
        JobState.SUCCEEDED,
        {"n": 1},
        scene.clock.now,
    )
    assert (job.attempts, job.crashes, job.fence) == (1, 0, claimed.fence)


async def test_a_result_comes_back_to_the_letter(scene: Scene) -> None:
    result = '"Ada \\u0000 \\ud83e\\udd8a 🦊 \' \\" \\\\"'
    claimed = await scene.ended(Returned(result))
    assert (await scene.job(claimed.id)).result_json == result


async def test_a_raise_schedules_the_next_attempt(scene: Scene) -> None:
    claimed = await scene.ended(RAISED)
    job = await scene.job(claimed.id)
    assert (job.state, job.due_at) == (JobState.SCHEDULED, scene.after(10))
    assert (job.attempts, job.fence) == (1, claimed.fence)
    assert [error.message for error in job.errors] == ["no such user"]


async def test_a_move_to_an_absolute_time_is_due_then(scene: Scene) -> None:
    snoozed, again = await scene.running(), await scene.running()
    await scene.finish(snoozed, Snoozed(None, scene.after(90)))
    await scene.finish(again, Raised("TryAgain", "not yet", retry_at=scene.after(60)))
    due = [(await scene.job(job.id)).due_at for job in (snoozed, again)]
    assert due == [scene.after(90), scene.after(60)]
    assert [(await scene.job(job.id)).attempts for job in (snoozed, again)] == [0, 1]
    scene.clock.advance(60)
    assert (await scene.store.jobs.promote_due(10)).count == 1
    assert await scene.state(again.id) is JobState.READY


async def test_a_time_that_has_come_already_is_due_at_once(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.finish(claimed, Snoozed(None, scene.after(-60)))
    assert await scene.state(claimed.id) is JobState.SCHEDULED
    assert (await scene.store.jobs.promote_due(10)).count == 1


async def test_a_failure_ends_the_job_with_its_reason(scene: Scene) -> None:
    job = await scene.job((await scene.ended(FAILED)).id)
    assert (job.state, job.reason, job.attempts) == (JobState.FAILED, "give up", 1)
    assert [(error.attempt, error.kind) for error in job.errors] == [(1, "Fail")]


@pytest.mark.parametrize(
    ("end", "state", "due_in"),
    [
        (Snoozed(60.0), JobState.SCHEDULED, 60),
        (WasThrottled(60.0, "slow"), JobState.SCHEDULED, 60),
        (WasSuspended(60.0), JobState.SUSPENDED, 60),
        (WasSuspended(None), JobState.SUSPENDED, None),
        (HandedBack(), JobState.READY, None),
    ],
    ids=["snooze", "throttle", "suspend with a timer", "suspend", "hand back"],
)
async def test_no_attempt_is_spent_by_a(
    scene: Scene, end: End, state: JobState, due_in: float | None
) -> None:
    claimed = await scene.ended(end)
    job = await scene.job(claimed.id)
    assert (job.state, job.attempts, job.fence) == (state, 0, claimed.fence)
    assert job.due_at == (None if due_in is None else scene.after(due_in))
    assert job.worker_id is None


async def test_a_job_handed_back_keeps_its_place_in_line(scene: Scene) -> None:
    jobs = await scene.enqueue_many(3)
    await scene.finish(await scene.claim_one(), HandedBack())
    assert ids(await scene.claim(10)) == jobs


async def test_a_job_handed_back_after_later_arrivals_is_still_first(scene: Scene) -> None:
    claimed = await scene.running()
    later = await scene.enqueue_many(2)
    await scene.finish(claimed, HandedBack())
    assert await scene.line() == [claimed.id, *later]


async def test_a_timeout_leaves_a_newer_fence(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.finish(await scene.live(claimed.id), TimedOut(5))
    job = await scene.job(claimed.id)
    assert (job.state, job.attempts, job.fence) == (JobState.SCHEDULED, 1, claimed.fence + 1)


async def test_a_zombie_cannot_finish_a_job_that_timed_out(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.finish(await scene.live(claimed.id), TimedOut(5))
    verdict = await scene.finish(claimed, RETURNED)
    assert verdict == Verdict(claimed.id, False, JobState.SCHEDULED, claimed.fence + 1)


async def test_a_zombie_cannot_finish_an_attempt_of_its_successor(scene: Scene) -> None:
    zombie = await scene.ended(HandedBack())
    successor = await scene.claim_one()
    verdict = await scene.finish(zombie, RETURNED)
    assert verdict == Verdict(zombie.id, False, JobState.RUNNING, successor.fence)
    assert (await scene.finish(successor, RETURNED)).accepted


async def test_a_refused_end_changes_nothing(scene: Scene) -> None:
    zombie = await scene.ended(HandedBack())
    await scene.claim_one()
    before = await scene.job(zombie.id)
    for end in (RETURNED, RAISED, FAILED, Snoozed(1), WasThrottled(60, "slow"), HandedBack()):
        assert not (await scene.finish(zombie, end)).accepted
    assert await scene.job(zombie.id) == before
    [queue] = await scene.store.queues.find([QUEUE])
    assert (queue.cooling_for, queue.throttles) == (None, 0)


async def test_a_finish_whose_reply_was_lost_is_recognised(scene: Scene) -> None:
    claimed = await scene.ended(RETURNED)
    again = await scene.finish(claimed, RETURNED)
    assert again == Verdict(claimed.id, False, JobState.SUCCEEDED, claimed.fence)


async def test_a_retry_whose_reply_was_lost_is_recognised(scene: Scene) -> None:
    claimed = await scene.ended(RAISED)
    again = await scene.finish(claimed, RAISED)
    assert again == Verdict(claimed.id, False, JobState.SCHEDULED, claimed.fence)
    assert (await scene.job(claimed.id)).attempts == 1


async def test_an_unknown_job_is_refused_without_a_state(scene: Scene) -> None:
    unknown = Transition(new_job_id(), 1, JobState.SUCCEEDED)
    assert await scene.store.jobs.finish([unknown]) == [Verdict(unknown.id, False, None, None)]


async def test_one_end_given_twice_in_a_batch_is_accepted_once(scene: Scene) -> None:
    claimed = await scene.running()
    end = decide(claimed, RETURNED)
    first, second = await scene.store.jobs.finish([end, end])
    assert (first.accepted, second.accepted) == (True, False)
    assert (second.state, second.fence) == (JobState.SUCCEEDED, claimed.fence)


async def test_two_ends_of_one_attempt_in_a_batch_first_wins(scene: Scene) -> None:
    claimed = await scene.running()
    verdicts = await scene.store.jobs.finish([decide(claimed, RAISED), decide(claimed, RETURNED)])
    assert accepted(verdicts) == [True, False]
    job = await scene.job(claimed.id)
    assert (job.state, job.attempts, len(job.errors)) == (JobState.SCHEDULED, 1, 1)


async def test_a_batch_is_judged_item_by_item(scene: Scene) -> None:
    await scene.enqueue_many(8)
    claimed = await scene.claim(8)
    stolen = claimed[::2]
    await scene.store.jobs.finish([decide(job, HandedBack()) for job in stolen])
    verdicts = await scene.store.jobs.finish([decide(job, RETURNED) for job in claimed])
    assert accepted(verdicts) == [False, True] * 4
    assert ids(verdicts) == ids(claimed)
    assert await scene.states(ids(claimed)) == [JobState.READY, JobState.SUCCEEDED] * 4


async def test_ends_of_every_kind_share_a_batch(scene: Scene) -> None:
    ends: list[End] = [
        RETURNED,
        RAISED,
        FAILED,
        Snoozed(5),
        WasSuspended(None),
        HandedBack(),
        Cancelled(),
    ]
    await scene.enqueue_many(len(ends))
    claimed = await scene.claim(len(ends))
    moves = [decide(job, end) for job, end in zip(claimed, ends, strict=True)]
    assert all(accepted(await scene.store.jobs.finish(moves)))
    assert await scene.states(ids(claimed)) == [move.to for move in moves]


async def test_a_thousand_ends_share_a_batch(scene: Scene) -> None:
    jobs = await scene.enqueue_many(1_000)
    claimed = await scene.claim(1_000)
    moves = [decide(job, RAISED if n % 2 else RETURNED) for n, job in enumerate(claimed)]
    assert all(accepted(await scene.store.jobs.finish(moves)))
    assert await scene.states(jobs) == [JobState.SUCCEEDED, JobState.SCHEDULED] * 500


@pytest.mark.parametrize("state", [JobState.READY, JobState.SCHEDULED, JobState.SUSPENDED])
async def test_a_waiting_job_can_be_ended(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state)
    assert (await scene.finish(await scene.live(job), Cancelled("not needed"))).accepted
    ended = await scene.job(job)
    assert (ended.state, ended.reason) == (JobState.CANCELLED, "not needed")
    assert await scene.claim(10) == []


async def test_a_move_from_the_wrong_place_is_refused(scene: Scene) -> None:
    seen = await scene.live(await scene.enqueue())
    claimed = await scene.claim_one()
    verdict = await scene.finish(seen, Cancelled())
    assert verdict == Verdict(seen.id, False, JobState.RUNNING, claimed.fence)


async def test_a_move_with_the_right_fence_from_the_wrong_place_is_refused(scene: Scene) -> None:
    seen = await scene.live(await scene.enqueue())
    await scene.store.jobs.reschedule([seen.id], 60)
    verdict = await scene.finish(seen, Cancelled())
    assert verdict == Verdict(seen.id, False, JobState.SCHEDULED, 0)


async def test_an_expired_job_leaves_a_newer_fence(scene: Scene) -> None:
    claimed = await scene.running(deadline_in=5.0)
    await scene.finish(await scene.live(claimed.id), DeadlinePassed())
    verdict = await scene.finish(claimed, RETURNED)
    assert verdict == Verdict(claimed.id, False, JobState.EXPIRED, claimed.fence + 1)


@pytest.mark.parametrize("end", [RETURNED, FAILED, Cancelled()], ids=["return", "fail", "cancel"])
async def test_an_ended_job_never_changes(scene: Scene, end: End) -> None:
    claimed = await scene.ended(end)
    before = await scene.job(claimed.id)
    for other in (RETURNED, RAISED, Snoozed(1), HandedBack(), Cancelled(), DeadlinePassed()):
        assert not (await scene.finish(claimed, other)).accepted
    assert await scene.job(claimed.id) == before


async def test_an_ended_job_is_kept_as_its_policy_says(scene: Scene) -> None:
    policy = Policy(retention=Retention(succeeded=60, failed=120, other=180))
    kept: dict[End, float] = {RETURNED: 60, FAILED: 120, Cancelled(): 180}
    for end, seconds in kept.items():
        job = await scene.job((await scene.ended(end, policy=policy)).id)
        assert job.expires_at == scene.after(seconds)


async def test_a_tuned_queue_overrides_how_long_ended_jobs_are_kept(scene: Scene) -> None:
    tuned = QueueSettings(retain_succeeded=1, retain_failed=2, retain_other=3)
    await scene.store.queues.tune(QUEUE, tuned)
    kept: dict[End, float] = {RETURNED: 1, FAILED: 2, Cancelled(): 3}
    for end, seconds in kept.items():
        job = await scene.job((await scene.ended(end)).id)
        assert job.expires_at == scene.after(seconds)


async def test_a_queue_tuned_in_part_leaves_the_rest_to_the_policy(scene: Scene) -> None:
    await scene.store.queues.tune(QUEUE, QueueSettings(retain_failed=2))
    policy = Policy(retention=Retention(succeeded=60))
    job = await scene.job((await scene.ended(RETURNED, policy=policy)).id)
    assert job.expires_at == scene.after(60)


async def test_concurrent_ends_of_one_attempt_are_accepted_once(scene: Scene) -> None:
    claimed = await scene.running()
    async with siblings(scene.store, 4) as others:
        verdicts = await asyncio.gather(
            *(scene.through(other).finish(claimed, RETURNED) for other in others for _ in range(2))
        )
    assert accepted(verdicts).count(True) == 1
    assert {v.state for v in verdicts if not v.accepted} == {JobState.SUCCEEDED}


async def test_concurrent_batches_in_opposite_orders_do_not_block_each_other(scene: Scene) -> None:
    await scene.enqueue_many(200)
    moves = [decide(job, RETURNED) for job in await scene.claim(200)]
    async with siblings(scene.store, 2) as (one, other):
        verdicts = await asyncio.gather(one.jobs.finish(moves), other.jobs.finish(moves[::-1]))
    assert sum(accepted([*verdicts[0], *verdicts[1]])) == 200


async def test_a_stale_end_before_it_in_a_batch_does_not_cost_an_end_its_turn(
    scene: Scene,
) -> None:
    stale = await scene.running()
    await scene.finish(stale, HandedBack())
    [current] = await scene.claim(1)
    ends = [decide(stale, RETURNED), decide(current, RETURNED)]
    assert accepted(await scene.store.jobs.finish(ends)) == [False, True]
    assert await scene.state(current.id) is JobState.SUCCEEDED


async def test_a_value_that_the_store_cannot_take_is_the_rows_fault(scene: Scene) -> None:
    """Another end of the same attempt is taken."""
    claimed = await scene.running()
    end = Transition(claimed.id, claimed.fence, JobState.FAILED, spend=1)
    refused = msgspec.structs.replace(end, reason="no text: \ud800")
    with pytest.raises(RowRefused, match="cannot take a value"):
        await scene.store.jobs.finish([refused])
    assert await scene.state(claimed.id) is JobState.RUNNING
    assert (await scene.store.jobs.finish([end]))[0].accepted
