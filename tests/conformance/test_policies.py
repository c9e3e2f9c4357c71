"""Policies that each store writes in its own language, as tables: every store gives every row."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from holdfast.job.ends import (
    Cancelled,
    DeadlinePassed,
    End,
    HandedBack,
    Skipped,
    Snoozed,
    WasSuspended,
    WasThrottled,
)
from holdfast.job.ids import JobId
from holdfast.job.policy import Policy, Retention
from holdfast.job.state import ENDED, LIVE, JobState
from holdfast.job.unique import OnConflict, Unique
from holdfast.store.contract.queues import QueueSettings
from tests.conformance.builders import FAILED, QUEUE, RAISED, RETURNED, STEADY, Scene

S = JobState

# How long a queue cools ----------------------------------------------------------------------


class Throttle(NamedTuple):
    """`after` seconds of quiet a job is throttled with a `hint`; the queue then cools for
    `cools` seconds, and has counted so many throttles."""

    after: float
    hint: float
    cools: float
    counted: int


CURVES: dict[str, tuple[QueueSettings, list[Throttle]]] = {
    "doubles up to the cap": (
        QueueSettings(throttle_base=2.0, throttle_cap=10.0),
        [
            Throttle(0, 0, 2, 1),
            Throttle(2, 0, 4, 2),
            Throttle(4, 0, 8, 3),
            Throttle(8, 0, 10, 4),
            Throttle(10, 0, 10, 5),
        ],
    ),
    "a longer hint wins, a shorter one does not": (
        QueueSettings(throttle_base=8.0, throttle_cap=10.0),
        [Throttle(0, 30, 30, 1), Throttle(30, 3, 10, 2)],
    ),
    "a hint may exceed the cap": (
        QueueSettings(throttle_base=1.0, throttle_cap=5.0),
        [Throttle(0, 60, 60, 1)],
    ),
    "two quiet minutes after a window are remembered": (
        QueueSettings(throttle_base=4.0, throttle_cap=100.0),
        [Throttle(0, 0, 4, 1), Throttle(4 + 120, 0, 8, 2)],
    ),
    "more than two quiet minutes are forgiven": (
        QueueSettings(throttle_base=4.0, throttle_cap=100.0),
        [Throttle(0, 0, 4, 1), Throttle(4 + 121, 0, 4, 1)],
    ),
    "a base of nothing leaves it to the hints": (
        QueueSettings(throttle_base=0.0, throttle_cap=100.0),
        [Throttle(0, 7, 7, 1), Throttle(7, 9, 9, 2)],
    ),
}


@pytest.mark.parametrize("curve", CURVES)
async def test_a_queue_cools_by_its_curve(scene: Scene, curve: str) -> None:
    settings, throttles = CURVES[curve]
    await scene.store.queues.tune(QUEUE, settings)
    for row in throttles:
        scene.clock.advance(row.after)
        await scene.enqueue(priority=-1)
        await scene.finish(await scene.claim_one(), WasThrottled(row.hint, "slow down"))
        [queue] = await scene.store.queues.find([QUEUE])
        assert queue.cooling_for == pytest.approx(row.cools), row
        assert queue.throttles == row.counted, row


@pytest.mark.parametrize(
    ("hints", "cools"),
    [([10, 5], 10), ([10, 25], 25), ([10, 25, 12], 25), ([0, 0], 2)],
)
async def test_siblings_in_one_window_only_ever_extend_it(
    scene: Scene, hints: list[float], cools: float
) -> None:
    await scene.store.queues.tune(QUEUE, QueueSettings(throttle_base=2.0, throttle_cap=10.0))
    await scene.enqueue_many(len(hints))
    for job, hint in zip(await scene.claim(len(hints)), hints, strict=True):
        await scene.finish(job, WasThrottled(hint, "slow down"))
    [queue] = await scene.store.queues.find([QUEUE])
    assert queue.cooling_for == pytest.approx(cools)
    assert queue.throttles == 1


# How long an ended job is kept ---------------------------------------------------------------

KEPT = Policy(
    retry=STEADY.retry, retention=Retention(succeeded=1_000.0, failed=2_000.0, other=3_000.0)
)
TUNED = {
    "nothing": QueueSettings(),
    "succeeded": QueueSettings(retain_succeeded=10.0),
    "failed": QueueSettings(retain_failed=20.0),
    "other": QueueSettings(retain_other=30.0),
    "all": QueueSettings(retain_succeeded=10.0, retain_failed=20.0, retain_other=30.0),
    "at once": QueueSettings(retain_succeeded=0.0, retain_failed=0.0, retain_other=0.0),
}
EXPECTED: dict[tuple[JobState, str], float] = {
    (S.SUCCEEDED, "nothing"): 1_000,
    (S.SUCCEEDED, "succeeded"): 10,
    (S.SUCCEEDED, "failed"): 1_000,
    (S.SUCCEEDED, "other"): 1_000,
    (S.SUCCEEDED, "all"): 10,
    (S.SUCCEEDED, "at once"): 0,
    (S.FAILED, "nothing"): 2_000,
    (S.FAILED, "succeeded"): 2_000,
    (S.FAILED, "failed"): 20,
    (S.FAILED, "other"): 2_000,
    (S.FAILED, "all"): 20,
    (S.FAILED, "at once"): 0,
    **{
        (state, tuned): seconds
        for state in (S.CANCELLED, S.EXPIRED, S.SKIPPED)
        for tuned, seconds in {
            "nothing": 3_000,
            "succeeded": 3_000,
            "failed": 3_000,
            "other": 30,
            "all": 30,
            "at once": 0,
        }.items()
    },
}


def test_the_table_of_retentions_is_whole() -> None:
    assert set(EXPECTED) == {(state, tuned) for state in ENDED for tuned in TUNED}


@pytest.mark.parametrize(("state", "tuned"), EXPECTED)
async def test_a_queue_overrides_how_long_its_jobs_are_kept(
    scene: Scene, state: JobState, tuned: str
) -> None:
    await scene.store.queues.tune(QUEUE, TUNED[tuned])
    assert await kept(scene, await scene.in_state(state, policy=KEPT)) == EXPECTED[state, tuned]


@pytest.mark.parametrize(
    ("end", "state"), [(Cancelled(), S.CANCELLED), (DeadlinePassed(), S.EXPIRED)]
)
@pytest.mark.parametrize("tuned", TUNED)
async def test_a_running_job_that_is_stopped_is_kept_like_one_that_waits(
    scene: Scene, end: End, state: JobState, tuned: str
) -> None:
    await scene.store.queues.tune(QUEUE, TUNED[tuned])
    job = await scene.ended(end, policy=KEPT)
    assert await kept(scene, job.id) == EXPECTED[state, tuned]


async def kept(scene: Scene, job_id: JobId) -> float:
    job = await scene.job(job_id)
    assert job.finished_at is not None
    assert job.expires_at is not None
    return (job.expires_at - job.finished_at).total_seconds()


# What becomes of a running job whose cancel was asked for --------------------------------------


class Stopped(NamedTuple):
    """The end that its worker writes without knowing of the request, and what is stored."""

    end: End
    state: JobState
    reason: str | None
    attempts: int
    errors: int


ON_REQUEST = "cancelled on request"
STOPPED = [
    Stopped(RETURNED, S.SUCCEEDED, None, 1, 0),
    Stopped(FAILED, S.FAILED, FAILED.message, 1, 1),
    Stopped(Cancelled("by the handler"), S.CANCELLED, "by the handler", 0, 0),
    Stopped(DeadlinePassed(), S.EXPIRED, "deadline passed", 0, 0),
    Stopped(RAISED, S.CANCELLED, ON_REQUEST, 1, 1),
    Stopped(Snoozed(60.0), S.CANCELLED, ON_REQUEST, 0, 0),
    Stopped(WasThrottled(60.0, "slow down"), S.CANCELLED, ON_REQUEST, 0, 0),
    Stopped(WasSuspended(None), S.CANCELLED, ON_REQUEST, 0, 0),
    Stopped(WasSuspended(60.0), S.CANCELLED, ON_REQUEST, 0, 0),
    Stopped(HandedBack(), S.CANCELLED, ON_REQUEST, 0, 0),
]


@pytest.mark.parametrize("tuned", ["nothing", "all"])
@pytest.mark.parametrize("row", STOPPED, ids=lambda row: type(row.end).__name__)
async def test_a_cancel_that_its_worker_has_not_heard_of_makes_every_wait_an_end(
    scene: Scene, row: Stopped, tuned: str
) -> None:
    await scene.store.queues.tune(QUEUE, TUNED[tuned])
    claimed = await scene.running(policy=KEPT)
    await scene.store.jobs.request_cancel([claimed.id])
    assert (await scene.finish(claimed, row.end)).accepted
    job = await scene.job(claimed.id)
    found = (job.state, job.reason, job.attempts, len(job.errors))
    assert found == (row.state, row.reason, row.attempts, row.errors)
    assert await kept(scene, claimed.id) == EXPECTED[row.state, tuned]


# Who gets a unique key -------------------------------------------------------------------------

EXISTING, REPLACED, DEBOUNCED, CREATED = "existing", "replaced", "debounced", "created"
CONFLICTS: dict[OnConflict, dict[JobState, str]] = {
    "keep": dict.fromkeys(sorted(LIVE), EXISTING),
    "replace": {
        S.BLOCKED: REPLACED,
        S.SCHEDULED: REPLACED,
        S.READY: REPLACED,
        S.SUSPENDED: REPLACED,
        S.RUNNING: EXISTING,
    },
    "debounce": {
        S.BLOCKED: EXISTING,
        S.SCHEDULED: DEBOUNCED,
        S.READY: DEBOUNCED,
        S.SUSPENDED: EXISTING,
        S.RUNNING: EXISTING,
    },
}
BY_CONFLICT = [
    (on_conflict, state, how)
    for on_conflict, table in CONFLICTS.items()
    for state, how in table.items()
]


@pytest.mark.parametrize(("on_conflict", "state", "how"), BY_CONFLICT)
async def test_a_live_holder_of_a_key_is_kept_replaced_or_debounced(
    scene: Scene, on_conflict: OnConflict, state: JobState, how: str
) -> None:
    holder = await scene.in_state(state, unique=Unique("k"))
    newer = await scene.insert(unique=Unique("k", on_conflict=on_conflict), delay=60.0)
    assert newer.how == how
    assert (newer.id == holder) is (how != REPLACED)
    found = await scene.job(holder)
    match how:
        case "replaced":
            expected = (S.CANCELLED, f"replaced by {newer.id}")
            assert (found.state, found.reason) == expected
            assert await scene.state(newer.id) is S.SCHEDULED
        case "debounced":
            assert (found.state, found.due_at) == (S.SCHEDULED, scene.after(60))
        case "existing":
            assert found.state is state


async def test_a_blocked_call_has_no_time_so_it_makes_the_holder_ready(scene: Scene) -> None:
    holder = await scene.enqueue(unique=Unique("k"), delay=3_600.0)
    newer = await scene.insert(unique=Unique("k", on_conflict="debounce"), delay=60.0, blocked=True)
    assert (newer.id, newer.how) == (holder, DEBOUNCED)
    assert await scene.state(holder) is S.READY


@pytest.mark.parametrize("on_conflict", CONFLICTS)
@pytest.mark.parametrize("state", sorted(ENDED))
async def test_an_ended_holder_has_lost_its_key_unless_it_asked_for_that_state(
    scene: Scene, on_conflict: OnConflict, state: JobState
) -> None:
    lost = await scene.in_state(state, queue="a", unique=Unique("live only"))
    held = await scene.in_state(state, queue="b", unique=Unique("k", states=LIVE | {state}))
    for key, holder, how in (("live only", lost, CREATED), ("k", held, EXISTING)):
        newer = await scene.insert(unique=Unique(key, on_conflict=on_conflict))
        assert (newer.how, newer.id == holder) == (how, how == EXISTING)
    assert await scene.states([lost, held]) == [state, state]


# Which ended job of a key comes back -----------------------------------------------------------

REQUEUES: dict[str, tuple[list[str], list[str]]] = {
    "the older alone": (["older"], ["older"]),
    "the newer alone": (["newer"], ["newer"]),
    "the older named first": (["older", "newer"], ["older"]),
    "the newer named first": (["newer", "older"], ["newer"]),
    "one named twice": (["newer", "newer", "older"], ["newer"]),
    "beside another key": (["other", "newer", "older"], ["other", "newer"]),
    "beside a job without a key": (["newer", "keyless", "older"], ["newer", "keyless"]),
}


@pytest.mark.parametrize("case", REQUEUES)
async def test_the_first_named_job_of_a_key_is_requeued(scene: Scene, case: str) -> None:
    named, requeued = REQUEUES[case]
    jobs = {
        "older": (await scene.ended(FAILED, unique=Unique("k"))).id,
        "newer": (await scene.ended(FAILED, unique=Unique("k"))).id,
        "other": (await scene.ended(FAILED, unique=Unique("another"))).id,
        "keyless": (await scene.ended(FAILED)).id,
    }
    found = await scene.store.jobs.requeue([jobs[name] for name in named])
    assert sorted(found) == sorted(jobs[name] for name in requeued)
    for name, job in jobs.items():
        assert await scene.state(job) is (S.READY if name in requeued else S.FAILED), name


@pytest.mark.parametrize("state", sorted(LIVE))
async def test_a_job_whose_key_a_live_job_holds_is_not_requeued(
    scene: Scene, state: JobState
) -> None:
    ended = await scene.ended(FAILED, unique=Unique("k"), queue="a")
    holder = await scene.in_state(state, unique=Unique("k"), queue="b")
    assert await scene.store.jobs.requeue([ended.id]) == []
    assert await scene.states([ended.id, holder]) == [S.FAILED, state]


async def test_a_skipped_job_is_requeued_like_any_that_has_ended(scene: Scene) -> None:
    job = await scene.enqueue(blocked=True, unique=Unique("k"))
    await scene.finish(await scene.live(job), Skipped("not needed"))
    assert await scene.store.jobs.requeue([job]) == [job]
    assert (await scene.insert(unique=Unique("k"))).how == EXISTING
