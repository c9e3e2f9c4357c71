"""Ties travel with a job to every place, and a tied job ends as a plain one does."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.job.ends import (
    End,
    HandedBack,
    PutOff,
    Reclaimed,
    Released,
    Snoozed,
    WasSuspended,
    WorkerLost,
)
from holdfast.job.outcome import decide
from holdfast.job.state import JobState
from holdfast.job.ties import BEGUN, Tie
from holdfast.job.unique import Unique
from tests.conformance.builders import FAILED, RAISED, REACHABLE, RETURNED, Scene

TIES = int(Tie.PERMITS | Tie.WATCHED)
NOT_BEGUN = [HandedBack(begun=False), PutOff(5.0, "not beside others")]


@pytest.mark.parametrize("state", REACHABLE)
async def test_ties_are_kept_in_every_place(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state, ties=TIES)
    plain = await scene.in_state(state)
    begun = BEGUN if state is JobState.SUSPENDED else 0
    assert (await scene.job(job)).ties == TIES | begun
    assert (await scene.job(plain)).ties == begun
    assert {one.id: one.ties for one in await scene.store.jobs.live([job, plain])} in (
        {job: TIES | begun, plain: begun},
        {},
    )


@pytest.mark.parametrize("count", [1, 3, 300])
async def test_a_claim_says_which_jobs_are_tied(scene: Scene, count: int) -> None:
    await scene.enqueue_many(count, ties=TIES)
    claimed = await scene.claim(count)
    assert {job.ties for job in claimed} == {TIES}
    await scene.enqueue()
    assert (await scene.claim_one()).ties == 0


@pytest.mark.parametrize(
    "end",
    [HandedBack(), RAISED, Snoozed(60.0), WasSuspended(60.0)],
    ids=lambda end: type(end).__name__,
)
async def test_ties_come_back_with_the_next_attempt(scene: Scene, end: End) -> None:
    claimed = await scene.running(ties=TIES)
    await scene.finish(claimed, end)
    scene.clock.advance(61)
    await scene.store.jobs.promote_due(10)
    assert (await scene.claim_one()).ties == TIES | BEGUN


@pytest.mark.parametrize("end", NOT_BEGUN, ids=repr)
async def test_an_attempt_that_did_not_begin_leaves_no_tie(scene: Scene, end: End) -> None:
    claimed = await scene.running()
    await scene.finish(claimed, end)
    assert (await scene.job(claimed.id)).ties == 0


async def test_a_job_that_waited_for_its_turn_in_a_dead_worker_has_not_begun(scene: Scene) -> None:
    claimed = msgspec.structs.replace(await scene.running(), ahead=True)
    assert (await scene.finish(claimed, Reclaimed("its worker died"))).accepted
    assert (await scene.job(claimed.id)).ties == 0


@pytest.mark.parametrize("end", [RETURNED, FAILED], ids=["returned", "failed"])
async def test_a_job_that_begins_again_as_if_it_were_new_has_not_begun(
    scene: Scene, end: End
) -> None:
    claimed = await scene.running()
    await scene.finish(claimed, RAISED)
    scene.clock.advance(3_600)
    await scene.store.jobs.promote_due(10)
    await scene.finish(await scene.claim_one(), end)
    assert (await scene.job(claimed.id)).ties == BEGUN
    assert await scene.store.jobs.requeue([claimed.id]) == [claimed.id]
    assert (await scene.job(claimed.id)).ties == 0


async def test_ties_survive_a_lost_worker(scene: Scene) -> None:
    worker = await scene.hire()
    claimed = await scene.running(worker=worker, ties=TIES)
    await scene.lose(worker)
    [found] = await scene.store.jobs.lapsed_leases(10)
    assert (found.id, found.ties) == (claimed.id, TIES)
    assert (await scene.reclaim(found, WorkerLost())).accepted
    assert (await scene.job(claimed.id)).ties == TIES | BEGUN


async def test_ties_survive_requeue_resume_reschedule_move_and_release(scene: Scene) -> None:
    ended = await scene.in_state(JobState.SUCCEEDED, ties=TIES)
    asleep = await scene.in_state(JobState.SUSPENDED, ties=TIES)
    later = await scene.in_state(JobState.SCHEDULED, ties=TIES)
    blocked = await scene.in_state(JobState.BLOCKED, ties=TIES)
    jobs = scene.store.jobs
    await jobs.requeue([ended])
    await jobs.resume([asleep])
    await jobs.reschedule([later], 0)
    await scene.finish(await scene.live(blocked), Released())
    await jobs.move([ended, asleep], "other")
    claimed = [*await scene.claim(10), *await scene.claim(10, "other")]
    assert {job.id for job in claimed} == {ended, asleep, later, blocked}
    assert {job.id: job.ties for job in claimed} == {
        **dict.fromkeys([ended, later, blocked], TIES),
        asleep: TIES | BEGUN,
    }


async def test_the_newer_job_brings_its_own_ties_when_it_replaces(scene: Scene) -> None:
    await scene.insert(ties=TIES, unique=Unique("task:greet:ada"))
    newer = await scene.insert(unique=Unique("task:greet:ada", on_conflict="replace"))
    assert (await scene.job(newer.id)).ties == 0


@pytest.mark.parametrize("end", [RETURNED, FAILED, RAISED], ids=["returned", "failed", "raised"])
async def test_a_tied_job_ends_as_a_plain_one_does(scene: Scene, end: End) -> None:
    tied, plain = await scene.running(ties=TIES), await scene.running()
    verdicts = [await scene.finish(job, end) for job in (tied, plain)]
    assert [verdict.accepted for verdict in verdicts] == [True, True]
    one, other = await scene.job(tied.id), await scene.job(plain.id)
    for field in ("state", "result", "reason", "attempts", "crashes", "finished_at", "expires_at"):
        assert getattr(one, field) == getattr(other, field), field
    assert [error.message for error in one.errors] == [error.message for error in other.errors]


async def test_tied_and_plain_jobs_end_in_one_batch(scene: Scene) -> None:
    tied, plain = await scene.running(ties=TIES), await scene.running()
    verdicts = await scene.store.jobs.finish([decide(job, RETURNED) for job in (tied, plain)])
    assert [(one.id, one.accepted) for one in verdicts] == [(tied.id, True), (plain.id, True)]
