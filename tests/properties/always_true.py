"""What is always true of a store, one function per line of the design that applies so far.

Each takes what can be seen from outside: a `Snapshot` of the store, and the `Record` a witness
kept of what it was told. They raise AssertionError with the ids that break the rule. Line 10
(nothing is leaked) is `tests.support.leaks.nothing_leaks`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from holdfast.clock import ManualClock
from holdfast.flow.errands import do_errand
from holdfast.flow.model import FLOW_LIVE
from holdfast.job.ends import DeadlinePassed, Released, Returned, TimedOut, WorkerLost
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.outcome import decide
from holdfast.job.policy import decode_policy
from holdfast.job.record import Claimed, Job
from holdfast.job.signal import Signal
from holdfast.job.state import ENDED, LIVE, WAITING, JobState
from holdfast.job.step import Step as JobStep
from holdfast.job.stream import FollowFrom, KeptFrames
from holdfast.job.ties import Tie
from holdfast.job.transition import Transition
from holdfast.job.what import What
from holdfast.store.contract.failures import Failure
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.flows import FlowFilter
from holdfast.store.contract.measures import Grain, Point, Step
from holdfast.store.contract.queues import EVERY_QUEUE, QueueInfo
from holdfast.store.contract.records import Verdict, Want
from holdfast.store.contract.store import Store
from holdfast.store.contract.telemetry import Tally
from holdfast.store.contract.workers import WorkerInfo
from tests.conformance.builders import new_worker

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


STREAM = "tokens"


@dataclass(frozen=True)
class Snapshot:
    """All that the store shows at one moment."""

    jobs: dict[JobId, Job]
    workers: dict[WorkerId, WorkerInfo]
    queues: dict[str, QueueInfo]
    expired: frozenset[JobId]
    tallies: tuple[Tally, ...]
    failures: tuple[Failure, ...]
    dead: dict[str, set[JobId]]
    lives: dict[JobId, list[What]]
    totals: Counter[What]
    timeline: Counter[What]
    steps: dict[JobId, list[JobStep]]
    frames: dict[JobId, list[KeptFrames]]
    signals: dict[JobId, list[Signal]]
    now: datetime

    @classmethod
    async def of(cls, store: Store) -> Snapshot:
        jobs: dict[JobId, Job] = {}
        cursor: str | None = None
        while True:
            page = await store.jobs.page(JobFilter(), 1_000, cursor)
            assert not any(job.id in jobs for job in page.jobs), "a job was listed twice"
            jobs |= {job.id: job for job in page.jobs}
            cursor = page.next_cursor
            if cursor is None:
                break
        failures = await store.failures.find(limit=1_000)
        lives: dict[JobId, list[What]] = {}
        for told in await store.jobs.life(list(jobs)):
            lives.setdefault(told.job_id, []).append(told.what)
        return cls(
            jobs,
            {worker.id: worker for worker in await store.workers.find()},
            {queue.name: queue for queue in await store.queues.find()},
            frozenset(live.id for live in await store.jobs.lapsed_leases(10_000)),
            tuple(await store.telemetry.tallies()),
            tuple(failures),
            {one.fingerprint: await _dead(store, one.fingerprint) for one in failures if one.dead},
            lives,
            _summed({total.what: total.jobs} for total in await store.telemetry.totals()),
            _summed(point.counts for point in await _days(store)),
            await store.steps.load(list(jobs)),
            await _frames(store, list(jobs)),
            await store.signals.of(list(jobs)),
            await store.now(),
        )


async def _frames(store: Store, jobs: list[JobId]) -> dict[JobId, list[KeptFrames]]:
    found = await store.streams.read([FollowFrom(job, STREAM) for job in jobs], 10_000)
    return {job: one.frames for job, one in zip(jobs, found, strict=True) if one.frames}


async def _days(store: Store) -> list[Point]:
    end = datetime(3000, 1, 1, tzinfo=UTC)
    return await store.telemetry.series(Step.DAY, EPOCH, end, Grain.ALL)


def _summed(counts: Iterable[Mapping[What, int]]) -> Counter[What]:
    sums: Counter[What] = Counter()
    for each in counts:
        sums.update(each)
    return sums


async def _dead(store: Store, fingerprint: str) -> set[JobId]:
    page = await store.jobs.page(JobFilter(fingerprint=fingerprint), 1_000)
    return {job.id for job in page.jobs}


@dataclass
class Record:
    """What a witness outside the store was told, in the order it was told."""

    acknowledged: set[JobId] = field(default_factory=set)
    removed: set[JobId] = field(default_factory=set)
    accepted_ends: Counter[tuple[JobId, int]] = field(default_factory=Counter)
    errors: Counter[str | None] = field(default_factory=Counter)
    fences: dict[JobId, int] = field(default_factory=dict)
    ended: dict[JobId, Job] = field(default_factory=dict)

    def saw_end(self, verdict: Verdict, move: Transition) -> None:
        """An attempt was ended, if the verdict says so. A waiting job has no attempt to end:
        cancelled, requeued and cancelled again it keeps one fence throughout."""
        if verdict.accepted and move.source is JobState.RUNNING:
            self.accepted_ends[move.id, move.fence] += 1
        if verdict.accepted and move.error is not None:
            self.errors[move.error.fingerprint] += 1

    def saw_requeue(self, job: JobId) -> None:
        self.ended.pop(job, None)


def line_1_acknowledged_enqueues_are_live_or_ended(seen: Snapshot, record: Record) -> None:
    expected = record.acknowledged - record.removed
    assert seen.jobs.keys() >= expected, f"lost: {expected - seen.jobs.keys()}"
    assert seen.jobs.keys() <= expected, f"out of nowhere: {seen.jobs.keys() - expected}"


def line_2_at_most_one_accepted_end_per_fence(record: Record) -> None:
    twice = [end for end, times in record.accepted_ends.items() if times > 1]
    assert not twice, f"ended twice: {twice}"


def line_2_fences_only_grow(seen: Snapshot, record: Record) -> None:
    for job in seen.jobs.values():
        before = record.fences.get(job.id, 0)
        assert job.fence >= before, f"{job.id}: fence went from {before} to {job.fence}"
        record.fences[job.id] = job.fence


def line_3_an_ended_job_never_changes(seen: Snapshot, record: Record) -> None:
    for job in seen.jobs.values():
        if job.state in ENDED:
            first = record.ended.setdefault(job.id, job)
            assert job == first, f"{job.id} changed after its end"
        else:
            assert job.id not in record.ended, f"{job.id} came back to life by itself"


def line_4_every_running_job_has_a_live_worker_or_is_reclaimable(seen: Snapshot) -> None:
    for job in seen.jobs.values():
        if job.state is JobState.RUNNING:
            worker = seen.workers.get(job.worker_id) if job.worker_id else None
            alive = worker is not None and worker.alive
            assert alive != (job.id in seen.expired), f"{job.id} at {job.worker_id}, alive={alive}"


def line_5_attempts_and_crashes_stay_within_bounds(seen: Snapshot) -> None:
    for job in seen.jobs.values():
        policy = decode_policy(job.policy)
        assert policy.retry.allows(job.attempts - 1), f"{job.id}: {job.attempts} attempts"
        assert job.crashes <= policy.max_crashes, f"{job.id}: {job.crashes} crashes"
        if job.state in LIVE:
            assert policy.retry.allows(job.attempts), f"{job.id} has no attempt left"


def line_6_every_waiting_job_has_something_that_will_wake_it(seen: Snapshot) -> None:
    """A ready job stands in a queue that is listed with it, so that a claim will find it; a
    scheduled one has its time. Only a suspended and a blocked one may wait for somebody's word."""
    waiting: Counter[str] = Counter()
    for job in seen.jobs.values():
        assert job.worker_id is None or job.state not in WAITING, f"{job.id} waits at a worker"
        if job.state is JobState.SCHEDULED:
            assert job.due_at is not None, f"{job.id} is scheduled for never"
        if job.state is JobState.READY:
            waiting[job.queue] += 1
    for queue, count in waiting.items():
        listed = seen.queues[queue].counts.get(JobState.READY, 0)
        assert listed == count, f"{queue}: {count} ready jobs, {listed} of them in line"


def line_12_the_tally_equals_a_recount(seen: Snapshot) -> None:
    recount = Counter((job.queue, job.task, job.state) for job in seen.jobs.values())
    tally = {(one.queue, one.task, one.state): one.jobs for one in seen.tallies}
    assert tally == recount, f"tally {tally}, recount {dict(recount)}"


def the_timeline_equals_the_books(seen: Snapshot) -> None:
    """Whoever folds and rolls up, and whenever: the counts of all days are those of all moves."""
    assert seen.timeline == seen.totals


def failures_count_every_accepted_error(seen: Snapshot, record: Record) -> None:
    counted = {one.fingerprint: one.count for one in seen.failures}
    assert counted == record.errors, f"counted {counted}, accepted {dict(record.errors)}"


def dead_jobs_are_those_that_failed(seen: Snapshot) -> None:
    failed: dict[str | None, set[JobId]] = {}
    for job in seen.jobs.values():
        if job.state is JobState.FAILED:
            failed.setdefault(job.errors[-1].fingerprint, set()).add(job.id)
    assert seen.dead == failed
    dead = {one.fingerprint: one.dead for one in seen.failures if one.dead}
    assert dead == {name: len(jobs) for name, jobs in failed.items()}


def check_all(seen: Snapshot, record: Record) -> None:
    """Every line that a snapshot can show."""
    line_1_acknowledged_enqueues_are_live_or_ended(seen, record)
    line_2_at_most_one_accepted_end_per_fence(record)
    line_2_fences_only_grow(seen, record)
    line_3_an_ended_job_never_changes(seen, record)
    line_4_every_running_job_has_a_live_worker_or_is_reclaimable(seen)
    line_5_attempts_and_crashes_stay_within_bounds(seen)
    line_6_every_waiting_job_has_something_that_will_wake_it(seen)
    line_12_the_tally_equals_a_recount(seen)
    f8_at_most_one_result_is_recorded_for_each_step(seen)
    f11_frames_of_a_section_are_of_one_try(seen)
    f10_a_job_that_sleeps_has_a_timer_and_a_recorded_wait(seen)
    the_timeline_equals_the_books(seen)
    failures_count_every_accepted_error(seen, record)
    dead_jobs_are_those_that_failed(seen)


def f8_at_most_one_result_is_recorded_for_each_step(seen: Snapshot) -> None:
    """And only jobs that say so have steps, signals or streams; the fence of a step is never newer
    than its job's."""
    for job, steps in seen.steps.items():
        names = [step.name for step in steps]
        assert len(names) == len(set(names)), job
        assert all(step.fence <= seen.jobs[job].fence for step in steps), job
    tied = {job.id for job in seen.jobs.values() if job.ties & Tie.STEPS}
    written = {*seen.steps, *seen.frames, *seen.signals}
    assert tied == written, "a job is tied to its steps, signals and streams, and no other is"


def f11_frames_of_a_section_are_of_one_try(seen: Snapshot) -> None:
    """They are of one fence, begin where their try began, and no number is there twice. Rows come
    in the order of their positions."""
    for job, rows in seen.frames.items():
        tries: dict[str, tuple[int, int]] = {}
        position = (0, -1)
        for row in rows:
            if row.section not in tries:
                assert row.first == row.since, job
            assert tries.setdefault(row.section, (row.fence, row.since)) == (row.fence, row.since)
            assert position < (row.fence, row.first) <= (row.fence, row.last), job
            assert row.fence <= seen.jobs[job].fence, job
            position = (row.fence, row.last)


def f10_a_job_that_sleeps_has_a_timer_and_a_recorded_wait(seen: Snapshot) -> None:
    for job in seen.jobs.values():
        if job.state is JobState.SUSPENDED and (job.reason or "").startswith("sleeps"):
            assert job.due_at is not None, job.id
            assert job.due_at in {step.until for step in seen.steps[job.id]}, job.id


async def line_11_when_faults_stop_the_queue_drains(store: Store, clock: ManualClock) -> None:
    """With a good worker, sweeps and time, every job ends; suspended ones are resumed, and blocked
    ones of no flow released. F14: so does every flow."""
    worker = new_worker()
    await store.workers.register(worker, 1e9)
    live: list[Job] = []
    for _ in range(50):
        clock.advance(hours=1)
        seen = await Snapshot.of(store)
        live = [job for job in seen.jobs.values() if job.state in LIVE]
        if not live:
            counts = await store.flows.count()
            assert not FLOW_LIVE & counts.keys(), f"F14: {counts}"
            return
        await store.queues.resume([EVERY_QUEUE, *seen.queues])
        await store.jobs.resume([job.id for job in live])
        blocked = [job for job in live if job.state is JobState.BLOCKED]
        await _release(store, [job.id for job in blocked if not job.ties & Tie.NODE])
        await _let_flows_go_on(store)
        await mend(store)
        wants = [Want(queue, 1_000) for queue in sorted({job.queue for job in live})]
        claimed = await store.jobs.claim(worker.id, wants, sorted({job.task for job in live}))
        await _return(store, claimed)
    raise AssertionError(f"still live after 50 rounds: {live}")


async def _release(store: Store, blocked: list[JobId]) -> None:
    await store.jobs.finish([decide(one, Released()) for one in await store.jobs.live(blocked)])


async def _let_flows_go_on(store: Store) -> None:
    """Nodes are released by what they wait for, in flows that are not paused."""
    flows = (await store.flows.page(FlowFilter(states=FLOW_LIVE), 1_000)).flows
    await store.flows.resume([flow.id for flow in flows])
    for errand in await store.flows.errands(1_000):
        await do_errand(store, errand)


async def mend(store: Store) -> list[Verdict]:
    """One round of every sweep, as the reconcilers do it."""
    jobs = store.jobs
    verdicts = await jobs.reclaim(
        [
            decide(live, WorkerLost(), cancel_requested=live.cancel_requested)
            for live in await jobs.lapsed_leases(1_000)
        ]
    )
    verdicts += await jobs.finish(
        [
            decide(live, TimedOut(1), cancel_requested=live.cancel_requested)
            for live in await jobs.overdue_attempts(1_000)
        ]
    )
    verdicts += await jobs.finish(
        [decide(live, DeadlinePassed()) for live in await jobs.past_deadline(1_000)]
    )
    await jobs.promote_due(1_000)
    return verdicts


async def _return(store: Store, claimed: list[Claimed]) -> None:
    verdicts = await store.jobs.finish([decide(job, Returned(None)) for job in claimed])
    assert all(verdict.accepted for verdict in verdicts)
