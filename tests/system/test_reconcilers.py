"""What time can break is mended: every reconciler, on every store, by a moved clock."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest

from holdfast.background.counters import Swept
from holdfast.background.job_sweep import JobMender
from holdfast.clock import ManualClock
from holdfast.events import Event
from holdfast.job.ids import JobId
from holdfast.job.policy import Policy
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from holdfast.job.transition import Transition
from holdfast.reconcile.attempt_timeout import AttemptTimeoutReconciler
from holdfast.reconcile.deadline import DeadlineReconciler
from holdfast.reconcile.lapsed_leases import LapsedLeasesReconciler
from holdfast.reconcile.promotion import PromotionReconciler
from holdfast.reconcile.retention import RetentionReconciler
from holdfast.reconcile.worker_registry import WorkerRegistryReconciler
from holdfast.schedule.model import Decision, Definition, Plan, Rule
from holdfast.store.contract.audit import Act, AuditFilter, new_act_id
from holdfast.store.contract.operations import OperationRequest, new_operation_id
from holdfast.store.contract.records import Verdict, Want
from holdfast.store.contract.store import Store
from tests.conformance.builders import QUEUE, RAISED, RETURNED, STEADY, TASK, Scene, new_worker
from tests.support.backends import Inspectable, opened, siblings
from tests.support.reconcile_scene import PoisonedJobs, counting, made, with_jobs

LEASE = 30.0
LIMITED = Policy(retry=STEADY.retry, timeout=5.0)


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> Scene:
    return await Scene.on(store, clock)


async def running_on_the_dead(scene: Scene, count: int, policy: Policy = STEADY) -> list[JobId]:
    """Jobs whose worker's lease has lapsed a second ago, by id."""
    worker = await scene.hire(LEASE)
    await scene.enqueue_many(count, policy=policy)
    claimed = await scene.claim(count, worker=worker)
    assert len(claimed) == count
    scene.clock.advance(LEASE + 1)
    return sorted(job.id for job in claimed)


# Lapsed leases


async def test_a_dead_workers_job_is_retried_without_anyone_asking(scene: Scene) -> None:
    [job] = await running_on_the_dead(scene, 1)
    assert await made(LapsedLeasesReconciler, scene.store).run_once() == Swept(found=1, mended=1)
    found = await scene.job(job)
    assert (found.state, found.attempts, found.crashes) == (JobState.SCHEDULED, 1, 1)
    assert [(error.attempt, error.message) for error in found.errors] == [(1, "worker lost")]

    scene.clock.advance(10)
    await made(PromotionReconciler, scene.store).run_once()
    again = await scene.claim_one()
    assert (again.id, again.attempt) == (job, 2)
    assert (await scene.finish(again)).accepted


async def test_a_live_workers_job_is_left_alone(scene: Scene) -> None:
    running = await scene.running()
    assert await made(LapsedLeasesReconciler, scene.store).run_once() == Swept()
    assert await scene.state(running.id) is JobState.RUNNING


async def test_a_zombie_cannot_finish_a_reclaimed_job(scene: Scene) -> None:
    worker = await scene.hire(LEASE)
    zombies = await scene.running(worker=worker)
    scene.clock.advance(LEASE + 1)
    await made(LapsedLeasesReconciler, scene.store).run_once()
    late = await scene.finish(zombies, RETURNED)
    assert not late.accepted
    assert late.state is JobState.SCHEDULED
    assert late.fence is not None
    assert late.fence > zombies.fence


async def test_a_worker_that_comes_back_while_being_reclaimed_keeps_its_job(scene: Scene) -> None:
    worker = await scene.hire(LEASE)
    running = await scene.running(worker=worker)
    scene.clock.advance(LEASE + 1)

    class JustTooLate(LapsedLeasesReconciler):
        async def apply(self, moves: Sequence[Transition]) -> list[Verdict]:
            await scene.store.workers.heartbeat(worker, LEASE, [])
            return await super().apply(moves)

    expiry = made(JustTooLate, scene.store)
    assert await expiry.run_once() == Swept(found=1, refused=1)
    assert expiry.counters.errors == 0
    assert (await scene.finish(running)).accepted


async def test_a_job_that_keeps_killing_its_worker_is_put_aside(scene: Scene) -> None:
    policy = Policy(retry=Retry.constant(99, base=0, jitter=0), max_crashes=3)
    job = await scene.enqueue(policy=policy)
    expiry, promotion = (
        made(LapsedLeasesReconciler, scene.store),
        made(PromotionReconciler, scene.store),
    )
    for _ in range(3):
        await promotion.run_once()
        worker = await scene.hire(LEASE)
        await scene.claim_one(worker=worker)
        scene.clock.advance(LEASE + 1)
        await expiry.run_once()
    found = await scene.job(job)
    assert (found.state, found.crashes, found.attempts) == (JobState.FAILED, 3, 3)


@pytest.mark.parametrize("retry", [STEADY.retry, Retry.never()], ids=["retried", "last attempt"])
@pytest.mark.parametrize("mender", [LapsedLeasesReconciler, AttemptTimeoutReconciler])
async def test_a_pending_cancel_survives_the_death_of_its_worker(
    scene: Scene, mender: type[JobMender], retry: Retry
) -> None:
    worker = await scene.hire(LEASE)
    running = await scene.running(worker=worker, policy=Policy(retry=retry, timeout=5.0))
    assert await scene.store.jobs.request_cancel([running.id]) == [running.id]
    scene.clock.advance(LEASE + 1)
    if mender is AttemptTimeoutReconciler:
        await scene.wrote_all(worker, LEASE)
    assert await made(mender, scene.store).run_once() == Swept(found=1, mended=1)
    assert await scene.state(running.id) is JobState.CANCELLED
    assert not (await scene.finish(running)).accepted


async def test_every_page_of_lost_jobs_is_reached_in_one_sweep(scene: Scene) -> None:
    jobs = await running_on_the_dead(scene, 7)
    expiry = made(LapsedLeasesReconciler, scene.store, batch=2)
    assert await expiry.run_once() == Swept(found=7, mended=7)
    assert set(await scene.states(jobs)) == {JobState.SCHEDULED}


# Attempt timeout


async def test_an_attempt_timeout_is_a_retry_not_an_end(scene: Scene) -> None:
    running = await scene.running(policy=LIMITED)
    scene.clock.advance(5 + 5 + 1)
    await scene.wrote_all()
    assert await made(AttemptTimeoutReconciler, scene.store).run_once() == Swept(found=1, mended=1)
    found = await scene.job(running.id)
    assert (found.state, found.attempts, found.crashes) == (JobState.SCHEDULED, 1, 0)
    assert found.errors[0].message == "timed out after 5 s"
    assert not (await scene.finish(running)).accepted


async def test_the_worker_has_the_first_word_about_a_timeout(scene: Scene) -> None:
    running = await scene.running(policy=LIMITED)
    scene.clock.advance(5 + 4)
    assert await made(AttemptTimeoutReconciler, scene.store, timeout_slack=5).run_once() == Swept()
    assert (await scene.finish(running)).accepted


async def test_timeout_and_lease_expiry_of_one_attempt_agree_on_one_end(scene: Scene) -> None:
    jobs = await running_on_the_dead(scene, 20, LIMITED)
    [worker] = {job.worker_id for job in await scene.store.jobs.live(jobs)}
    assert worker is not None
    await scene.lose(worker)
    async with siblings(scene.store, 2) as (one, other):
        expiry, timeout = (
            made(LapsedLeasesReconciler, one, batch=7),
            made(AttemptTimeoutReconciler, other, batch=7),
        )
        tallies = await asyncio.gather(expiry.run_once(), timeout.run_once())
    assert sum(tally.mended for tally in tallies) == 20
    for job in await scene.store.jobs.get(jobs):
        assert (job.state, job.attempts, len(job.errors)) == (JobState.SCHEDULED, 1, 1)


# Deadline


@pytest.mark.parametrize(
    "state", [JobState.READY, JobState.SCHEDULED, JobState.RUNNING, JobState.SUSPENDED]
)
async def test_a_job_past_its_deadline_expires_from_any_live_state(
    scene: Scene, state: JobState
) -> None:
    job = await scene.in_state(state, deadline_in=60.0)
    deadline = made(DeadlineReconciler, scene.store)
    assert await deadline.run_once() == Swept()
    due_in = await deadline.due_in()
    assert due_in == pytest.approx(60.0)
    scene.clock.advance(61)
    await scene.wrote_all()
    assert await deadline.run_once() == Swept(found=1, mended=1)
    assert await scene.state(job) is JobState.EXPIRED
    assert await deadline.due_in() is None


async def test_a_worker_cannot_finish_an_expired_job(scene: Scene) -> None:
    running = await scene.running(deadline_in=60.0)
    scene.clock.advance(61)
    await scene.wrote_all()
    await made(DeadlineReconciler, scene.store).run_once()
    assert not (await scene.finish(running)).accepted


START_ONLY = Policy(retry=Retry(base=600, jitter=0), start_only=True)


@pytest.mark.parametrize("state", [JobState.READY, JobState.SCHEDULED])
async def test_a_job_that_has_not_started_in_time_expires(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state, policy=START_ONLY, deadline_in=60.0)
    scene.clock.advance(61)
    assert await made(DeadlineReconciler, scene.store).run_once() == Swept(found=1, mended=1)
    ended = await scene.job(job)
    assert (ended.state, ended.reason) == (JobState.EXPIRED, "not started in time")


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.SUSPENDED])
async def test_a_deadline_of_the_start_leaves_a_job_alone_that_has_begun(
    scene: Scene, state: JobState
) -> None:
    job = await scene.in_state(state, policy=START_ONLY, deadline_in=60.0)
    scene.clock.advance(61)
    await scene.wrote_all()
    deadline = made(DeadlineReconciler, scene.store)
    assert await deadline.run_once() == Swept(found=1, mended=1)
    assert await scene.state(job) is state
    assert await deadline.due_in() is None  # no sweep finds it again
    assert await deadline.run_once() == Swept()


async def test_a_deadline_of_the_start_leaves_a_retry_alone(scene: Scene) -> None:
    job = (await scene.ended(RAISED, policy=START_ONLY, deadline_in=60.0)).id
    scene.clock.advance(61)
    assert await made(DeadlineReconciler, scene.store).run_once() == Swept(found=1, mended=1)
    assert await scene.state(job) is JobState.SCHEDULED


async def test_what_a_dead_worker_had_claimed_ahead_must_still_start_in_time(scene: Scene) -> None:
    worker = await scene.hire()
    job = await scene.enqueue(policy=START_ONLY, deadline_in=60.0)
    await scene.store.jobs.claim(worker, [Want(QUEUE, 1, free=0)], [TASK])
    await scene.lose(worker)
    scene.clock.advance(61)
    deadline = made(DeadlineReconciler, scene.store)
    assert await deadline.run_once() == Swept(found=1)
    await made(LapsedLeasesReconciler, scene.store).run_once()
    assert await scene.state(job) is JobState.READY
    assert await deadline.run_once() == Swept(found=1, mended=1)
    assert await scene.state(job) is JobState.EXPIRED


async def test_a_job_that_ended_before_its_deadline_stays_as_it_ended(scene: Scene) -> None:
    ended = await scene.ended(deadline_in=60.0)
    scene.clock.advance(61)
    assert (await made(DeadlineReconciler, scene.store).run_once()).mended == 0
    assert await scene.state(ended.id) is JobState.SUCCEEDED


async def test_expiring_many_deadlines_reads_the_late_ones_a_few_times_only(scene: Scene) -> None:
    """Each page reads every late job; a page for every batch would make expiring quadratic."""
    await scene.enqueue_many(95, deadline_in=60.0)
    scene.clock.advance(61)
    calls = Counter[str]()
    sweep = made(DeadlineReconciler, counting(scene.store, calls), batch=5)
    assert await sweep.run_once() == Swept(found=95, mended=95)
    assert calls["finish"] == 19
    assert calls["past_deadline"] <= 2


# Promotion


async def test_a_job_that_breaks_promotion_is_set_aside_and_the_others_are_promoted(
    scene: Scene,
) -> None:
    jobs = sorted(await scene.enqueue_many(9, delay=10.0))
    poison, others = jobs[4], jobs[:4] + jobs[5:]
    poisoned, seen = PoisonedJobs(scene.store.jobs, [poison]), list[Event]()
    promotion = made(PromotionReconciler, with_jobs(scene.store, poisoned), seen, batch=4)
    scene.clock.advance(30)
    tally = await promotion.run_once()
    assert (tally.mended, tally.failed) == (8, 1)
    assert await scene.states(others) == [JobState.READY] * 8
    assert await scene.state(poison) is JobState.SCHEDULED
    assert await promotion.due_in() is not None
    [event] = [event for event in seen if event.name == "reconciler.items_failed"]
    assert event.fields["jobs"] == (poison,)
    for _ in range(5):
        tally = await promotion.run_once()
    assert (tally.found, tally.skipped) == (1, 1)
    assert poisoned.tried.count(poison) < 12


async def test_a_job_in_two_places_does_not_stop_promotion(
    inspectable: Inspectable, clock: ManualClock
) -> None:
    url = await inspectable.empty()
    async with opened(url, clock) as store:
        scene = await Scene.on(store, clock)
        doubled, *others = await scene.enqueue_many(4, delay=10.0)
        tables = await inspectable.tables(url)
        [ready] = [name for name in tables if name.strip('"').endswith("ready")]
        [waiting] = [name for name in tables if name.strip('"').endswith("scheduled")]
        columns = "job_id, queue, priority, seq, task, attempts, crashes, fence, ties"
        moment = "ready_at" if "holdfast_" in ready else "since"
        now = "1" if moment == "ready_at" else "now()"
        copied = columns.replace("seq", "1")
        await inspectable.run(
            url,
            f"insert into {ready} ({columns}, {moment}) select {copied}, {now} from {waiting}"
            f" where job_id = '{doubled}'",
        )
        clock.advance(30)
        tally = await made(PromotionReconciler, store).run_once()
        assert (tally.mended, tally.failed) == (3, 1)
        assert await scene.states(others) == [JobState.READY] * 3


async def test_due_jobs_become_ready_in_bounded_batches_and_others_wait(scene: Scene) -> None:
    due = await scene.enqueue_many(7, delay=10.0)
    later = await scene.enqueue(delay=25.0)
    scene.clock.advance(10)
    promotion = made(PromotionReconciler, scene.store, batch=2)
    assert await promotion.run_once() == Swept(found=7, mended=7)
    assert set(await scene.states(due)) == {JobState.READY}
    assert await scene.state(later) is JobState.SCHEDULED
    assert await promotion.due_in() == pytest.approx(15.0)


# Retention


async def test_ended_jobs_are_removed_when_their_time_is_over(scene: Scene) -> None:
    old = [(await scene.ended()).id for _ in range(7)]
    scene.clock.advance(hours=8 * 24)
    young = (await scene.ended()).id
    assert await made(RetentionReconciler, scene.store, batch=3).run_once() == Swept(
        found=7, mended=7
    )
    assert set(await scene.states(old)) == {None}
    assert await scene.state(young) is JobState.SUCCEEDED


async def test_one_replica_at_a_time_prunes_and_the_next_takes_over_when_it_leaves(
    scene: Scene,
) -> None:
    first, second = made(RetentionReconciler, scene.store), made(RetentionReconciler, scene.store)
    await scene.ended()
    scene.clock.advance(hours=8 * 24)
    assert await first.leadership.ensure()
    assert await second.run_once() == Swept()
    await first.close()
    assert await second.run_once() == Swept(found=1, mended=1)


async def test_the_ledger_is_pruned_as_its_schedules_say(scene: Scene) -> None:
    rule = Definition(Rule(cron="@hourly"), "greet", "default", keep=60.0)
    await scene.store.schedules.declare({"hourly": rule})
    first = scene.clock.now
    plans = [
        Plan("hourly", "", first + timedelta(hours=hour), Decision.SKIPPED) for hour in range(7)
    ]
    await scene.store.schedules.record(plans)
    assert await made(RetentionReconciler, scene.store).run_once() == Swept()
    scene.clock.advance(3 * 60 + 1)
    assert await made(RetentionReconciler, scene.store, batch=3).run_once() == Swept(
        found=7, mended=7
    )
    assert await scene.store.schedules.history("hourly") == []


async def test_acts_of_operators_are_kept_as_long_as_the_program_says(scene: Scene) -> None:
    for number in range(7):
        act = Act(id=new_act_id(), by="ann", verb="queues.pause", target=f"queue-{number}")
        await scene.store.audit.begin(act)
    scene.clock.advance(50.0)
    assert await made(RetentionReconciler, scene.store, audit_kept=60.0).run_once() == Swept()
    scene.clock.advance(3 * 60 + 1)
    pruning = made(RetentionReconciler, scene.store, batch=3, audit_kept=60.0)
    assert await pruning.run_once() == Swept(found=7, mended=7)
    assert (await scene.store.audit.page(AuditFilter(), 10)).entries == ()


async def test_operations_that_are_over_are_kept_for_a_week(scene: Scene) -> None:
    for _ in range(4):
        await scene.store.operations.begin(new_operation_id(), OperationRequest(verb="cancel"))
    runs, *over = [operation.id for operation in await scene.store.operations.find()]
    await scene.store.operations.stop(over)
    scene.clock.advance(6 * 86_400)
    assert await made(RetentionReconciler, scene.store).run_once() == Swept()
    scene.clock.advance(86_400)
    pruning = made(RetentionReconciler, scene.store, batch=2)
    assert await pruning.run_once() == Swept(found=3, mended=3)
    assert [operation.id for operation in await scene.store.operations.find()] == [runs]


async def test_a_leader_that_vanished_is_followed_after_its_ttl(scene: Scene) -> None:
    first, second = made(RetentionReconciler, scene.store), made(RetentionReconciler, scene.store)
    await first.run_once()
    assert not await second.leadership.ensure()
    scene.clock.advance(3 * 60 + 1)
    assert await second.leadership.ensure()


# Worker registry


async def test_lapsed_workers_are_removed_unless_they_still_hold_a_job(scene: Scene) -> None:
    holder, idle = await scene.hire(LEASE), new_worker()
    await scene.store.workers.register(idle, LEASE)
    await scene.running(worker=holder)
    registry = made(WorkerRegistryReconciler, scene.store, worker_kept=60.0)
    scene.clock.advance(LEASE + 59)
    assert await registry.run_once() == Swept()
    scene.clock.advance(2)
    assert await registry.run_once() == Swept(found=1, mended=1)
    assert {worker.id for worker in await scene.store.workers.find()} == {scene.worker, holder}


# Many replicas


async def test_four_replicas_mend_each_job_once(scene: Scene) -> None:
    jobs = await running_on_the_dead(scene, 60)
    async with siblings(scene.store, 4) as stores:
        sweeps = [made(LapsedLeasesReconciler, each, batch=9) for each in stores]
        tallies = await asyncio.gather(*(sweep.run_once() for sweep in sweeps))
    assert sum(tally.mended for tally in tallies) == 60
    assert [tally.failed for tally in tallies] == [0, 0, 0, 0]
    for job in await scene.store.jobs.get(jobs):
        assert (job.attempts, job.crashes, len(job.errors)) == (1, 1, 1)


async def test_four_replicas_promote_each_job_once(scene: Scene) -> None:
    jobs = await scene.enqueue_many(60, delay=10.0)
    scene.clock.advance(10)
    async with siblings(scene.store, 4) as stores:
        sweeps = [made(PromotionReconciler, each, batch=9) for each in stores]
        tallies = await asyncio.gather(*(sweep.run_once() for sweep in sweeps))
    assert sum(tally.mended for tally in tallies) == 60
    assert sorted(await scene.line()) == sorted(jobs)
