"""Telemetry: the books agree with the jobs, whatever moved them."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from holdfast.job.ends import (
    Cancelled,
    End,
    HandedBack,
    PutOff,
    Raised,
    Reclaimed,
    Released,
    Skipped,
    Snoozed,
    TimedOut,
    WasSuspended,
    WasThrottled,
    WorkerLost,
)
from holdfast.job.policy import Policy
from holdfast.job.retry import Retry
from holdfast.job.state import ENDED, JobState
from holdfast.job.what import What
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.telemetry import TRAFFIC_KEPT, Tally, Total, Traffic
from holdfast.store.sqlite import ranges
from tests.conformance.builders import FAILED, RAISED, RETURNED, STEADY, TASK, Scene, new_job

S = JobState


async def totals(scene: Scene) -> dict[What, int]:
    counted: Counter[What] = Counter()
    for total in await scene.store.telemetry.totals():
        counted[total.what] += total.jobs
    return dict(counted)


async def states(scene: Scene) -> dict[JobState, int]:
    counted: Counter[JobState] = Counter()
    for tally in await scene.store.telemetry.tallies():
        counted[tally.state] += tally.jobs
    return dict(counted)


async def test_the_books_of_an_empty_store_are_empty(scene: Scene) -> None:
    books = scene.store.telemetry
    assert await books.tallies() == []
    assert await books.totals() == []
    assert await books.fold(100) == 0


async def test_jobs_are_counted_by_queue_task_and_state(scene: Scene) -> None:
    await scene.enqueue_many(3, queue="a")
    await scene.enqueue_many(2, "other", queue="a")
    await scene.enqueue(queue="b", delay=60.0)
    await scene.enqueue(queue="b", blocked=True)
    expected = [
        Tally("a", TASK, S.READY, 3),
        Tally("a", "other", S.READY, 2),
        Tally("b", TASK, S.BLOCKED, 1),
        Tally("b", TASK, S.SCHEDULED, 1),
    ]
    assert sorted(await scene.store.telemetry.tallies()) == sorted(expected)
    assert sorted(await scene.store.telemetry.tallies(["b"])) == expected[2:]
    assert await scene.store.telemetry.tallies(["c"]) == []


@pytest.mark.parametrize("state", list(S))
async def test_every_state_is_counted_and_a_removed_job_is_not(scene: Scene, state: S) -> None:
    job = await scene.in_state(state)
    assert await states(scene) == {state: 1}
    await scene.store.jobs.delete([job])
    assert await states(scene) == ({} if state in ENDED else {state: 1})


ENDS: dict[What, End] = {
    What.SUCCEEDED: RETURNED,
    What.FAILED: FAILED,
    What.RETRIED: RAISED,
    What.TIMED_OUT: TimedOut(1),
    What.LOST: WorkerLost(),
    What.SNOOZED: Snoozed(60),
    What.THROTTLED: WasThrottled(60, "busy"),
    What.SUSPENDED: WasSuspended(None),
    What.HANDED_BACK: HandedBack(),
    What.PUT_OFF: PutOff(5, "later"),
    What.CANCELLED: Cancelled(),
}


@pytest.mark.parametrize("what", list(ENDS))
async def test_an_end_of_an_attempt_has_its_word(scene: Scene, what: What) -> None:
    await scene.ended(ENDS[what])
    assert await totals(scene) == {What.ENQUEUED: 1, What.CLAIMED: 1, what: 1}


@pytest.mark.parametrize("end", [Raised("E", "m"), TimedOut(1), WorkerLost()], ids=type)
async def test_a_last_failure_is_a_failure_whatever_its_cause(scene: Scene, end: End) -> None:
    await scene.ended(end, policy=Policy(retry=Retry(max_attempts=1)))
    assert await totals(scene) == {What.ENQUEUED: 1, What.CLAIMED: 1, What.FAILED: 1}


async def test_a_reclaimed_job_was_lost(scene: Scene) -> None:
    worker = await scene.hire()
    job = await scene.running(worker=worker)
    await scene.lose(worker)
    assert (await scene.reclaim(await scene.live(job.id), Reclaimed("its worker died"))).accepted
    assert await totals(scene) == {What.ENQUEUED: 1, What.CLAIMED: 1, What.LOST: 1}
    assert await states(scene) == {S.READY: 1}


async def test_a_cancel_that_was_asked_for_wins_over_a_retry(scene: Scene) -> None:
    job = await scene.running()
    await scene.store.jobs.request_cancel([job.id])
    await scene.finish(job, RAISED)
    assert await totals(scene) == {What.ENQUEUED: 1, What.CLAIMED: 1, What.CANCELLED: 1}


async def test_a_refused_end_is_not_counted(scene: Scene) -> None:
    job = await scene.ended()
    assert not (await scene.finish(job)).accepted
    assert not (await scene.finish(job, RAISED)).accepted
    assert await totals(scene) == {What.ENQUEUED: 1, What.CLAIMED: 1, What.SUCCEEDED: 1}


async def test_a_repeated_insert_is_counted_once(scene: Scene) -> None:
    job = new_job()
    for _ in range(2):
        await scene.store.jobs.insert([job])
    assert await totals(scene) == {What.ENQUEUED: 1}


async def test_due_jobs_are_promoted(scene: Scene) -> None:
    job = await scene.enqueue(delay=10.0)
    await scene.ended(WasSuspended(10.0))
    scene.clock.advance(20)
    await scene.store.jobs.promote([job])
    await scene.store.jobs.promote_due(10)
    counted = await totals(scene)
    assert counted[What.PROMOTED] == 2
    assert await states(scene) == {S.READY: 2}


async def test_blocked_jobs_are_released_or_skipped(scene: Scene) -> None:
    for end in (Released(), Released(60.0), Skipped("not needed")):
        job = await scene.enqueue(blocked=True)
        await scene.finish(await scene.live(job), end)
    assert await totals(scene) == {What.ENQUEUED: 3, What.RELEASED: 2, What.SKIPPED: 1}
    assert await states(scene) == {S.READY: 1, S.SCHEDULED: 1, S.SKIPPED: 1}


async def test_what_operators_do_is_counted(scene: Scene) -> None:
    jobs = scene.store.jobs
    suspended = await scene.in_state(S.SUSPENDED)
    failed = await scene.in_state(S.FAILED)
    waiting = await scene.enqueue(queue="late", delay=60.0)
    ready = await scene.enqueue(queue="a")
    before = await totals(scene)
    await jobs.resume([suspended])
    await jobs.requeue([failed])
    await jobs.reschedule([waiting], 0.0)
    await jobs.reschedule([ready], 60.0)
    await jobs.move([ready, waiting], "b")
    await jobs.reprioritise([ready], 3)
    after = await totals(scene)
    changed = {what: n - before.get(what, 0) for what, n in after.items() if n != before.get(what)}
    expected = {What.RESUMED: 1, What.REQUEUED: 1, What.RESCHEDULED: 2, What.MOVED: 4}
    assert changed == expected
    assert sorted(await scene.store.telemetry.tallies(["a", "b", "late"])) == [
        Tally("b", TASK, S.READY, 1),
        Tally("b", TASK, S.SCHEDULED, 1),
    ]


async def test_a_move_to_its_own_queue_is_none(scene: Scene) -> None:
    job = await scene.enqueue()
    await scene.store.jobs.move([job], "default")
    assert await totals(scene) == {What.ENQUEUED: 1}
    assert await states(scene) == {S.READY: 1}


async def test_pruned_jobs_leave_the_tally_but_not_the_totals(scene: Scene) -> None:
    await scene.ended(policy=STEADY)
    scene.clock.advance(hours=24 * 400)
    assert await scene.store.jobs.prune(10) == 1
    assert await states(scene) == {}
    counted = await totals(scene)
    assert counted == {What.ENQUEUED: 1, What.CLAIMED: 1, What.SUCCEEDED: 1, What.PRUNED: 1}


async def test_folding_changes_no_answer(scene: Scene) -> None:
    books = scene.store.telemetry
    for state in S:
        await scene.in_state(state, queue=state)
    scene.clock.advance(minutes=1)
    await scene.enqueue(queue="later")
    span = (scene.after(-3600), scene.after(3600))

    async def answers() -> list[object]:
        tallies, totals = await books.tallies(), await books.totals()
        return [sorted(tallies), sorted(totals), sorted(await books.traffic(*span))]

    before = await answers()
    while await books.fold(3):
        assert await answers() == before
    scene.clock.advance(minutes=2)
    while await books.fold(3):
        assert await answers() == before
    assert await answers() == before


async def test_moves_are_told_by_minute(scene: Scene) -> None:
    books = scene.store.telemetry
    scene.clock.now = scene.clock.now.replace(second=5, microsecond=0)
    first = scene.clock.now.replace(second=0)
    await scene.enqueue_many(2)
    scene.clock.advance(minutes=1)
    await scene.finish(await scene.claim_one())
    then, end = first + timedelta(minutes=1), first + timedelta(minutes=2)
    assert await books.traffic(first, then) == [Traffic(first, "default", TASK, What.ENQUEUED, 2)]
    assert sorted(await books.traffic(then, end)) == [
        Traffic(then, "default", TASK, What.CLAIMED, 1),
        Traffic(then, "default", TASK, What.SUCCEEDED, 1),
    ]


async def test_old_minutes_are_forgotten_once_rolled_up_but_not_their_totals(
    scene: Scene,
) -> None:
    books = scene.store.telemetry
    start = scene.after(-60)
    await scene.enqueue()
    scene.clock.advance(TRAFFIC_KEPT + 120)
    while await books.fold(100):
        pass
    assert len(await books.traffic(start, scene.after(60))) == 1
    await books.roll_up(1)
    await books.fold(100)
    assert await books.traffic(start, scene.after(60)) == []
    assert await books.totals() == [Total("default", TASK, What.ENQUEUED, 1)]
    assert await books.tallies() == [Tally("default", TASK, S.READY, 1)]


async def test_a_count_by_state_queue_and_task_agrees_with_the_rows(scene: Scene) -> None:
    for state in S:
        await scene.in_state(state, queue=state)
    every = JobFilter()
    walked = Counter(job.state for job in (await scene.store.jobs.page(every, 100)).jobs)
    assert await scene.store.jobs.count(every) == walked


async def test_the_lag_of_a_line_survives_a_hand_back(scene: Scene) -> None:
    await scene.enqueue()
    scene.clock.advance(30)
    await scene.enqueue(priority=-5)
    await scene.enqueue(priority=7)
    claimed = await scene.claim(3)
    for job in claimed:
        await scene.finish(job, HandedBack())
    [queue] = await scene.store.queues.find(["default"])
    assert queue.oldest_ready_age == pytest.approx(30, abs=0.001)


@pytest.fixture
def short_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a store recounts jobs in ranges, these have two jobs."""
    monkeypatch.setattr(ranges, "JOBS_AT_ONCE", 2)


@pytest.mark.usefixtures("short_ranges")
async def test_a_recount_finds_that_the_books_are_right(scene: Scene) -> None:
    for state in S:
        await scene.in_state(state, queue=state)
    assert await scene.store.telemetry.recount() == []


@pytest.mark.usefixtures("short_ranges")
async def test_what_a_recount_finds_missing_is_corrected(scene: Scene) -> None:
    books = scene.store.telemetry
    await scene.enqueue_many(2, queue="a")
    await books.correct([Tally("a", TASK, S.READY, 3), Tally("b", TASK, S.FAILED, -1)])
    missing = await books.recount()
    assert missing is not None
    assert sorted(missing) == [Tally("a", TASK, S.READY, -3), Tally("b", TASK, S.FAILED, 1)]
    await scene.enqueue(queue="a")
    await books.correct(missing)
    assert await books.recount() == []
    assert await books.tallies() == [Tally("a", TASK, S.READY, 3)]
