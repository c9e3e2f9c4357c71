"""Jobs.life: everything unusual that happened to a job, in order, on every store alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from holdfast.job.ends import (
    Cancelled,
    DeadlinePassed,
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
from holdfast.job.happening import DEBOUNCED, FIRST_KEPT, NEWEST_KEPT, Happening
from holdfast.job.ids import JobId, new_job_id
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy
from holdfast.job.record import ERRORS_KEPT, ErrorEntry
from holdfast.job.retry import Retry
from holdfast.job.state import ENDED, WAITING, JobState
from holdfast.job.unique import Unique
from holdfast.job.what import What
from tests.conformance.builders import FAILED, RAISED, RETURNED, Scene, accepted
from tests.conformance.planning import Diary

ANN = "ann@desk"
PATIENT = Policy(retry=Retry.constant(max_attempts=1_000, base=0, jitter=0), max_crashes=1_000)
ONCE = Policy(retry=Retry(max_attempts=1))


async def life(scene: Scene, job: JobId) -> list[Happening]:
    return await scene.store.jobs.life([job])


async def words(scene: Scene, job: JobId) -> list[str]:
    return [one.what.value for one in await life(scene, job)]


# What leaves nothing -----------------------------------------------------------------------------


async def test_nothing_asked_nothing_found(scene: Scene) -> None:
    assert await scene.store.jobs.life([]) == []
    assert await scene.store.jobs.life([new_job_id()]) == []


@pytest.mark.parametrize("ties", [0, 8])
async def test_a_plain_life_leaves_no_happening(scene: Scene, ties: int) -> None:
    job = await scene.enqueue(delay=5.0, ties=ties)
    scene.clock.advance(6)
    await scene.store.jobs.promote_due(10)
    await scene.finish(await scene.claim_one())
    assert await scene.state(job) is JobState.SUCCEEDED
    assert await life(scene, job) == []


async def test_a_refused_end_leaves_no_happening(scene: Scene) -> None:
    claimed = await scene.ended(RETURNED)
    for end in (RAISED, Snoozed(5), HandedBack(), Cancelled()):
        assert not (await scene.finish(claimed, end)).accepted
    assert await life(scene, claimed.id) == []


async def test_of_two_ends_in_a_batch_only_the_first_is_told(scene: Scene) -> None:
    claimed = await scene.running()
    moves = [decide(claimed, Snoozed(5)), decide(claimed, RAISED)]
    assert accepted(await scene.store.jobs.finish(moves)) == [True, False]
    assert await words(scene, claimed.id) == ["snoozed"]


# Ends of attempts --------------------------------------------------------------------------------

ENDS: list[tuple[End, What, str | None, float | None]] = [
    (RAISED, What.RETRIED, "no such user", 10.0),
    (FAILED, What.FAILED, "give up", None),
    (TimedOut(3), What.TIMED_OUT, "timed out after 3 s", 10.0),
    (WorkerLost(), What.LOST, "worker lost", 10.0),
    (Reclaimed("its worker is gone"), What.LOST, "its worker is gone", None),
    (Snoozed(60), What.SNOOZED, None, 60.0),
    (WasThrottled(7, "slow down"), What.THROTTLED, "throttled: slow down", 7.0),
    (WasSuspended(None), What.SUSPENDED, None, None),
    (WasSuspended(8), What.SUSPENDED, None, 8.0),
    (HandedBack(), What.HANDED_BACK, None, None),
    (PutOff(4, "not beside others"), What.PUT_OFF, "not beside others", 4.0),
    (Cancelled("not needed"), What.CANCELLED, "not needed", None),
    (DeadlinePassed(), What.EXPIRED, "deadline passed", None),
]


@pytest.mark.parametrize(("end", "what", "message", "due"), ENDS, ids=[str(e[1]) for e in ENDS])
async def test_the_end_of_an_attempt_is_told_with_its_attempt_and_worker(
    scene: Scene, end: End, what: What, message: str | None, due: float | None
) -> None:
    claimed = await scene.running()
    began = scene.clock.now
    scene.clock.advance(2)
    assert (await scene.finish(claimed, end)).accepted
    move = decide(claimed, end)
    [told] = await life(scene, claimed.id)
    assert told == Happening(
        job_id=claimed.id,
        at=scene.clock.now,
        what=what,
        attempt=1,
        fence=claimed.fence,
        worker_id=scene.worker,
        claimed_at=began,
        due_at=None if due is None else scene.after(due),
        kind=None if move.error is None else move.error.kind,
        message=message,
        traceback=None,
        fingerprint=None if move.error is None else move.error.fingerprint,
    )


async def test_a_snooze_until_a_time_is_told_with_that_time(scene: Scene) -> None:
    until = datetime(2031, 5, 1, 12, tzinfo=UTC)
    claimed = await scene.ended(Snoozed(None, until))
    [told] = await life(scene, claimed.id)
    assert told.due_at == until


async def test_an_error_is_told_with_its_traceback_and_fingerprint(scene: Scene) -> None:
    claimed = await scene.running()
    error = ErrorEntry(1, "ValueError", "«é🦊»", "Traceback …", fingerprint="5f3a9c0e1b2d4786")
    move = msgspec.structs.replace(decide(claimed, RAISED), error=error)
    await scene.store.jobs.finish([move])
    [told] = await life(scene, claimed.id)
    assert (told.kind, told.message, told.traceback) == ("ValueError", "«é🦊»", "Traceback …")
    assert told.fingerprint == "5f3a9c0e1b2d4786"


async def test_attempts_and_fences_are_those_of_each_attempt(scene: Scene) -> None:
    job = await scene.enqueue(policy=PATIENT)
    fences = []
    for end in (RAISED, Snoozed(0), TimedOut(1), FAILED):
        claimed = await scene.claim_one()
        fences.append(claimed.fence)
        await scene.finish(claimed, end)
        await scene.store.jobs.promote_due(10)
    told = await life(scene, job)
    assert [one.what.value for one in told] == ["retried", "snoozed", "timed_out", "failed"]
    assert [one.attempt for one in told] == [1, 2, 2, 3]
    assert [one.fence for one in told] == fences


async def test_the_last_attempt_is_told_as_failed(scene: Scene) -> None:
    claimed = await scene.ended(RAISED, policy=ONCE)
    [told] = await life(scene, claimed.id)
    assert (told.what, told.kind, told.due_at) == (What.FAILED, "ValueError", None)


async def test_a_reclaim_is_told_with_the_worker_that_was_lost(scene: Scene) -> None:
    worker = await scene.hire()
    claimed = await scene.running(worker=worker)
    await scene.lose(worker)
    await scene.reclaim(await scene.live(claimed.id), WorkerLost())
    [told] = await life(scene, claimed.id)
    assert (told.what, told.worker_id, told.kind) == (What.LOST, worker, "WorkerLost")


@pytest.mark.parametrize(
    ("end", "message"), [(Snoozed(5), "cancelled on request"), (RAISED, "no such user")]
)
async def test_a_retry_that_a_cancel_stops_is_told_as_cancelled(
    scene: Scene, end: End, message: str
) -> None:
    claimed = await scene.running()
    await scene.store.jobs.request_cancel([claimed.id], ANN)
    await scene.finish(claimed, end)
    asked, stopped = await life(scene, claimed.id)
    assert (asked.what, asked.by, asked.worker_id) == (What.CANCEL_ASKED, ANN, scene.worker)
    assert (stopped.what, stopped.message, stopped.due_at) == (What.CANCELLED, message, None)
    assert (stopped.kind is None) == (end is not RAISED)


# Jobs that wait ----------------------------------------------------------------------------------


async def test_an_end_while_waiting_names_no_worker(scene: Scene) -> None:
    claimed = await scene.ended(RAISED)
    await scene.finish(await scene.live(claimed.id), Cancelled(by=ANN))
    _, told = await life(scene, claimed.id)
    assert (told.what, told.by, told.worker_id) == (What.CANCELLED, ANN, None)
    assert (told.attempt, told.claimed_at) == (1, None)


@pytest.mark.parametrize(
    ("end", "word"),
    [(Released(), "released"), (Released(9.0), "released"), (Skipped("no use"), "skipped")],
)
async def test_what_becomes_of_a_blocked_job_is_told(scene: Scene, end: End, word: str) -> None:
    job = await scene.enqueue(blocked=True)
    await scene.finish(await scene.live(job), end)
    [told] = await life(scene, job)
    assert (told.what.value, told.attempt, told.fence) == (word, 0, 0)
    assert told.due_at == (scene.after(9) if end == Released(9.0) else None)


# Operators ---------------------------------------------------------------------------------------

Verb = Callable[[Scene, JobId], Awaitable[list[JobId]]]


async def _cancel_waiting(scene: Scene, job: JobId) -> list[JobId]:
    verdict = await scene.finish(await scene.live(job), Cancelled(by=ANN))
    return [job] if verdict.accepted else []


OPERATED: dict[str, tuple[Verb, frozenset[JobState], str | None]] = {
    "resumed": (lambda s, j: s.store.jobs.resume([j], ANN), frozenset({JobState.SUSPENDED}), None),
    "cancel_asked": (
        lambda s, j: s.store.jobs.request_cancel([j], ANN),
        frozenset({JobState.RUNNING}),
        None,
    ),
    "cancelled": (_cancel_waiting, WAITING, "cancelled on request"),
    "requeued": (lambda s, j: s.store.jobs.requeue([j], ANN), ENDED, None),
    "rescheduled": (
        lambda s, j: s.store.jobs.reschedule([j], 9.0, ANN),
        frozenset({JobState.READY, JobState.SCHEDULED}),
        None,
    ),
    "moved": (lambda s, j: s.store.jobs.move([j], "slow", ANN), WAITING, "q"),
    "reprioritised": (lambda s, j: s.store.jobs.reprioritise([j], 7, ANN), WAITING, "-2"),
    "edited": (
        lambda s, j: s.store.jobs.edit([j], '{"other":1}', ["new"], ANN),
        WAITING - {JobState.SUSPENDED},
        "arguments and tags",
    ),
}
IN_STATES = [(word, state) for word, (_, states, _) in OPERATED.items() for state in sorted(states)]


@pytest.mark.parametrize(("word", "state"), IN_STATES)
async def test_an_operators_verb_is_told_with_who_did_it(
    scene: Scene, word: str, state: JobState
) -> None:
    verb, _, message = OPERATED[word]
    job = await scene.in_state(state, queue="q", priority=-2)
    before = await scene.job(job)
    earlier = await life(scene, job)
    assert await verb(scene, job) == [job]
    *others, told = await life(scene, job)
    assert others == earlier
    running = state is JobState.RUNNING
    assert told == Happening(
        job_id=job,
        at=scene.clock.now,
        what=What(word),
        attempt=before.attempts + running,
        fence=before.fence,
        worker_id=scene.worker if running else None,
        claimed_at=before.claimed_at if running else None,
        due_at=scene.after(9) if word == "rescheduled" else None,
        by=ANN,
        message=message,
    )


REPEATABLE = ("cancel_asked", "rescheduled", "moved", "reprioritised", "edited")


@pytest.mark.parametrize("word", REPEATABLE)
async def test_a_verb_that_changes_nothing_more_is_told_once(scene: Scene, word: str) -> None:
    verb, states, _ = OPERATED[word]
    job = await scene.in_state(min(states), queue="q", priority=-2)
    assert [await verb(scene, job) for _ in range(3)] == [[job]] * 3
    assert (await words(scene, job)).count(word) == 1


@pytest.mark.parametrize("word", ["resumed", "requeued"])
async def test_a_verb_that_finds_its_job_gone_on_is_told_once(scene: Scene, word: str) -> None:
    verb, states, _ = OPERATED[word]
    job = await scene.in_state(min(states), queue="q")
    assert [len(await verb(scene, job)) for _ in range(3)] == [1, 0, 0]
    assert (await words(scene, job)).count(word) == 1


async def test_a_ready_job_that_is_made_ready_is_told_of_nothing(scene: Scene) -> None:
    job = await scene.enqueue()
    assert await scene.store.jobs.reschedule([job], 0, ANN) == [job]
    assert await life(scene, job) == []


async def test_a_scheduled_job_that_is_made_ready_has_no_time_to_wait_for(scene: Scene) -> None:
    job = await scene.enqueue(delay=60.0)
    await scene.store.jobs.reschedule([job], 0, ANN)
    [told] = await life(scene, job)
    assert (told.what, told.due_at, told.by) == (What.RESCHEDULED, None, ANN)


async def test_a_program_that_acts_for_itself_has_no_name(scene: Scene) -> None:
    job = await scene.enqueue()
    await scene.store.jobs.move([job], "slow")
    [told] = await life(scene, job)
    assert told.by is None


async def test_a_verb_on_many_jobs_is_told_of_each(scene: Scene) -> None:
    jobs = await scene.enqueue_many(700)
    await scene.store.jobs.move(jobs, "slow", ANN)
    told = await scene.store.jobs.life(jobs)
    assert {one.job_id for one in told} == set(jobs)
    assert len(told) == len(jobs)
    assert {(one.what, one.message) for one in told} == {(What.MOVED, "default")}


# Calls of one key, and plans ---------------------------------------------------------------------


async def test_a_job_that_a_newer_call_replaces_is_told_so(scene: Scene) -> None:
    old = await scene.enqueue(unique=Unique("k"), delay=60.0)
    new = await scene.enqueue(unique=Unique("k", on_conflict="replace"))
    [told] = await life(scene, old)
    assert (told.what, told.message) == (What.CANCELLED, f"replaced by {new}")
    assert await life(scene, new) == []


async def test_a_debounced_job_is_told_of_its_new_time_and_arguments(scene: Scene) -> None:
    unique = Unique("k", on_conflict="debounce")
    job = await scene.enqueue(unique=unique, delay=60.0)
    scene.clock.advance(5)
    await scene.enqueue(unique=unique, delay=60.0)
    [pushed] = await life(scene, job)
    assert (pushed.what, pushed.message) == (What.RESCHEDULED, DEBOUNCED)
    assert pushed.due_at == scene.after(60)
    await scene.enqueue(unique=unique, delay=60.0, args='{"name":"Bob"}')
    assert await words(scene, job) == ["rescheduled", "edited"]


async def test_jobs_that_a_plan_replaces_are_told_so(scene: Scene) -> None:
    diary = await Diary.of(scene)
    running = await diary.started(0)
    await scene.claim_one()
    waiting = await diary.started(1)
    await diary.started(2, cancel=(running, waiting))
    message = f"replaced by the plan of {diary.at(2).isoformat()}"
    [asked], [ended] = await life(scene, running), await life(scene, waiting)
    assert (asked.what, asked.message) == (What.CANCEL_ASKED, message)
    assert asked.worker_id == scene.worker
    assert (ended.what, ended.message) == (What.CANCELLED, message)


# How much is kept --------------------------------------------------------------------------------


async def test_the_first_and_the_newest_happenings_are_kept(scene: Scene) -> None:
    job = await scene.enqueue()
    began = scene.clock.now
    for _ in range(FIRST_KEPT + NEWEST_KEPT + 5):
        scene.clock.advance(1)
        await scene.finish(await scene.claim_one(), HandedBack())
    told = await life(scene, job)
    seconds = [(one.at - began) // timedelta(seconds=1) for one in told]
    last = FIRST_KEPT + NEWEST_KEPT + 5
    assert seconds == [*range(1, FIRST_KEPT + 1), *range(last - NEWEST_KEPT + 1, last + 1)]


async def test_many_happenings_push_out_no_error_and_many_errors_no_happening(
    scene: Scene,
) -> None:
    job = await scene.enqueue(policy=PATIENT)
    await scene.finish(await scene.claim_one(), Raised("First", "of all"))
    await scene.store.jobs.reschedule([job], 0)
    for _ in range(FIRST_KEPT + NEWEST_KEPT + 2):
        await scene.finish(await scene.claim_one(), HandedBack())
    assert [error.kind for error in (await scene.job(job)).errors] == ["First"]
    for _ in range(ERRORS_KEPT + 2):
        await scene.finish(await scene.claim_one(), Raised("E", "again", retry_after=0))
        await scene.store.jobs.promote_due(10)
    told = await life(scene, job)
    assert len([one for one in told if one.kind is None]) == FIRST_KEPT + NEWEST_KEPT
    assert [one.kind for one in told if one.kind is not None] == ["E"] * ERRORS_KEPT


async def test_a_verb_of_an_operator_is_kept_in_bounds_too(scene: Scene) -> None:
    job, other = await scene.enqueue(), await scene.enqueue()
    await scene.store.jobs.move([other], "slow")
    for priority in range(1, FIRST_KEPT + NEWEST_KEPT + 3):
        await scene.store.jobs.reprioritise([job], priority)
    told = await life(scene, job)
    assert len(told) == FIRST_KEPT + NEWEST_KEPT
    assert [told[0].message, told[-1].message] == ["0", str(FIRST_KEPT + NEWEST_KEPT + 1)]
    assert await words(scene, other) == ["moved"]


# What goes ---------------------------------------------------------------------------------------


async def test_happenings_go_with_their_job(scene: Scene) -> None:
    deleted, pruned, kept = [(await scene.ended(FAILED)).id for _ in range(3)]
    await scene.store.jobs.requeue([kept])
    await scene.store.jobs.delete([deleted])
    scene.clock.advance(400 * 86_400)
    assert await scene.store.jobs.prune(10) == 1
    assert await life(scene, deleted) == await life(scene, pruned) == []
    assert await words(scene, kept) == ["failed", "requeued"]


async def test_a_requeued_job_keeps_its_life(scene: Scene) -> None:
    claimed = await scene.ended(FAILED)
    await scene.store.jobs.requeue([claimed.id], ANN)
    await scene.finish(await scene.claim_one(), Snoozed(5))
    told = await life(scene, claimed.id)
    assert [one.what.value for one in told] == ["failed", "requeued", "snoozed"]
    assert [one.attempt for one in told] == [1, 1, 1]
