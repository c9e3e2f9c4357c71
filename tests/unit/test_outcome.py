"""outcome.py: every row of the table that says what follows from the end of an attempt."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import msgspec
import pytest

from holdfast.errors import BadOption
from holdfast.job.checks import LONGEST_WAIT
from holdfast.job.ends import (
    Cancelled,
    DeadlinePassed,
    DoesNotFit,
    End,
    HandedBack,
    PutOff,
    Raised,
    Reclaimed,
    Released,
    Returned,
    Skipped,
    Snooze,
    Snoozed,
    Suspend,
    TimedOut,
    WasSuspended,
    WasThrottled,
    WorkerLost,
)
from holdfast.job.ids import new_job_id, new_worker_id
from holdfast.job.outcome import decide, leave, undecidable, unwritable
from holdfast.job.policy import Policy, Retention, encode_policy
from holdfast.job.record import Claimed, ErrorEntry, Live
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from holdfast.job.text import MESSAGE_LIMIT, TRACEBACK_LIMIT, clean
from holdfast.job.ties import Tie
from holdfast.job.transition import Transition

NOW = datetime(2030, 1, 1, tzinfo=UTC)
POLICY = Policy(
    retry=Retry(max_attempts=3, base=4, jitter=0),
    retention=Retention(succeeded=10, failed=20, other=30),
)
BOOM = Raised("ValueError", "boom", "Traceback …")


def claimed(policy: Policy = POLICY, *, attempts: int = 0, crashes: int = 0) -> Claimed:
    facts: dict[str, Any] = {"deadline_at": None, "tags": (), "headers": None, "checkpoint": None}
    return Claimed(
        id=new_job_id(),
        task="greet",
        queue="default",
        priority=0,
        args="{}",
        policy=encode_policy(policy),
        attempts=attempts,
        crashes=crashes,
        fence=7,
        created_at=NOW,
        ready_at=NOW,
        claimed_at=NOW,
        **facts,
    )


def live(state: JobState, *, attempts: int = 0, crashes: int = 0) -> Live:
    worker = new_worker_id() if state is JobState.RUNNING else None
    policy = encode_policy(POLICY)
    return Live(new_job_id(), state, "default", "greet", policy, attempts, crashes, 7, worker)


def counted(move: Transition) -> tuple[int, int, int]:
    return move.spend, move.crash, move.bump


# The table ------------------------------------------------------------------------------------


def test_returns_succeeded_and_the_result_is_kept() -> None:
    job = claimed()
    move = decide(job, Returned("42"))
    assert (move.id, move.fence, move.source) == (job.id, 7, JobState.RUNNING)
    assert (move.to, move.result, move.keep_for) == (JobState.SUCCEEDED, "42", 10)
    assert move.error is None


def test_returns_with_results_off_keeps_none() -> None:
    job = claimed(Policy(keep_result=False))
    assert decide(job, Returned("42")).result is None


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.READY])
def test_a_return_is_a_move_from_the_state_that_the_job_is_in(state: JobState) -> None:
    """Only a running job may return; from any other state the store refuses the move."""
    assert decide(live(state), Returned(None)).source is state


EVERY_END = [
    Returned("42"),
    BOOM,
    Raised("Fail", "no use", final=True),
    Snoozed(1),
    WasThrottled(1, "429"),
    WasSuspended(None),
    HandedBack(),
    PutOff(1, "not beside another"),
    DoesNotFit("it takes no 'title'"),
    Reclaimed("it had not begun"),
    WorkerLost(),
    TimedOut(1),
    Cancelled(),
    DeadlinePassed(),
    Released(),
    Skipped("its parent failed"),
]


def test_every_end_is_in_the_list_above() -> None:
    assert {type(end) for end in EVERY_END} == set(get_args(End))


@pytest.mark.parametrize("end", EVERY_END, ids=lambda end: type(end).__name__)
def test_every_end_carries_the_ties_of_its_job(end: End) -> None:
    tied = msgspec.structs.replace(claimed(), ties=int(Tie.NODE))
    assert decide(tied, end).ties == Tie.NODE
    assert not decide(tied, end).is_plain_success
    assert decide(claimed(), end).ties == 0


@pytest.mark.parametrize(
    "change",
    [
        {"to": JobState.FAILED},
        {"source": JobState.SCHEDULED},
        {"spend": 0},
        {"crash": 1},
        {"bump": 1},
        {"reason": ""},
        {"error": ErrorEntry(1, "ValueError", "no")},
        {"cool": 0.0},
        {"drains": "tenant"},
        {"steps": (object(),)},
        {"ties": int(Tie.NODE)},
        {"ties": int(Tie.PERMITS)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_success_with_anything_beside_it_is_not_plain(change: dict[str, Any]) -> None:
    plain = decide(claimed(), Returned("7"))
    assert plain.is_plain_success
    assert not msgspec.structs.replace(plain, **change).is_plain_success


@pytest.mark.parametrize("tie", [Tie.STEPS, Tie.UNDO, Tie.BEGUN])
def test_what_attempts_have_left_binds_no_success(tie: Tie) -> None:
    tied = msgspec.structs.replace(claimed(), ties=int(tie))
    assert decide(tied, Returned("7")).is_plain_success


GOES_ON = (JobState.READY, JobState.SCHEDULED, JobState.SUSPENDED)


@pytest.mark.parametrize("end", EVERY_END, ids=lambda end: type(end).__name__)
def test_a_job_that_goes_on_has_begun_unless_its_handler_was_never_called(end: End) -> None:
    move = decide(claimed(), end)
    never = isinstance(end, PutOff) or (isinstance(end, HandedBack) and not end.begun)
    begun = move.to in GOES_ON and not never
    assert move.gained == (Tie.BEGUN if begun else 0)
    assert decide(live(JobState.SCHEDULED), Cancelled()).gained == 0


def test_ends_of_last_resort_carry_the_ties_of_their_job_too() -> None:
    tied = msgspec.structs.replace(claimed(), ties=int(Tie.PERMITS))
    problem = ValueError("broken")
    moves = [leave(tied, problem), undecidable(tied, problem)]
    moves.append(unwritable(decide(tied, BOOM), problem))
    assert [move.ties for move in moves] == [Tie.PERMITS] * 3


AT = datetime(2040, 1, 1, tzinfo=UTC)


def test_raises_what_its_policy_does_not_try_again_fails_at_once() -> None:
    policy = Policy(retry=Retry(on=(OSError,), jitter=0))
    raised = Raised("ValueError", "boom", names=("builtins.ValueError", "builtins.Exception"))
    move = decide(claimed(policy), raised)
    assert (move.to, move.reason, counted(move)) == (JobState.FAILED, "boom", (1, 0, 0))
    lost = Raised("TimeoutError", "slow", names=("builtins.TimeoutError", "builtins.OSError"))
    assert decide(claimed(policy), lost).to is JobState.SCHEDULED


def test_a_timeout_is_tried_again_as_a_timeout_error_would_be() -> None:
    def after(retry: Retry) -> JobState:
        return decide(claimed(Policy(retry=retry)), TimedOut(1)).to

    assert after(Retry(on=(TimeoutError,))) is JobState.SCHEDULED
    assert after(Retry(on=(KeyError,))) is JobState.FAILED
    assert after(Retry(not_on=(TimeoutError,))) is JobState.FAILED


def test_a_lost_worker_is_no_exception_that_a_policy_could_name() -> None:
    move = decide(claimed(Policy(retry=Retry(on=(KeyError,)))), WorkerLost())
    assert move.to is JobState.SCHEDULED


def test_raises_with_a_time_of_its_own_is_due_then_and_spends_an_attempt() -> None:
    move = decide(claimed(), Raised("TryAgain", "not yet", retry_at=AT))
    assert (move.to, move.run_at, move.delay) == (JobState.SCHEDULED, AT, None)
    assert counted(move) == (1, 0, 0)
    assert decide(claimed(attempts=2), Raised("TryAgain", "no", retry_at=AT)).to is JobState.FAILED


def test_snooze_until_a_time_is_due_then_and_spends_nothing() -> None:
    move = decide(claimed(), Snoozed(None, AT))
    assert (move.to, move.run_at, counted(move)) == (JobState.SCHEDULED, AT, (0, 0, 0))


def test_raises_for_ever_while_the_policy_has_no_number_of_attempts() -> None:
    policy = Policy(retry=Retry(max_attempts=None, cap=60, jitter=0))
    move = decide(claimed(policy, attempts=100_000), BOOM)
    assert (move.to, move.delay) == (JobState.SCHEDULED, 60)


def test_cancelled_by_its_handler_keeps_the_handler_s_reason_also_after_a_request() -> None:
    for asked in (False, True):
        move = decide(claimed(), Cancelled("order was withdrawn"), cancel_requested=asked)
        assert (move.to, move.reason) == (JobState.CANCELLED, "order was withdrawn")
        assert move.spend == 0


def test_raises_attempts_left_scheduled_by_its_backoff() -> None:
    move = decide(claimed(attempts=1), BOOM)
    assert (move.to, move.delay, counted(move)) == (JobState.SCHEDULED, 8, (1, 0, 0))
    assert move.error is not None
    assert (move.error.attempt, move.error.kind, move.error.message) == (2, "ValueError", "boom")
    assert move.error.traceback == "Traceback …"


def test_raises_with_a_hint_the_hint_is_honoured() -> None:
    assert decide(claimed(), Raised("E", "busy", retry_after=99)).delay == 99
    assert decide(claimed(), Raised("E", "busy", retry_after=0)).delay == 0


@pytest.mark.parametrize("hint", [math.nan, math.inf, -math.inf])
def test_raises_with_a_hint_that_is_no_number_the_curve_counts(hint: float) -> None:
    assert decide(claimed(), Raised("E", "busy", retry_after=hint)).delay == 4


def test_raises_none_left_failed() -> None:
    move = decide(claimed(attempts=2), BOOM)
    assert (move.to, move.reason, move.keep_for) == (JobState.FAILED, "boom", 20)
    assert (counted(move), move.delay) == ((1, 0, 0), None)
    assert move.error is not None


def test_raises_none_left_a_hint_does_not_help() -> None:
    assert decide(claimed(attempts=2), Raised("E", "busy", retry_after=5)).to is JobState.FAILED


def test_fail_failed_whatever_attempts_are_left() -> None:
    move = decide(claimed(), Raised("Fail", "no use", final=True))
    assert (move.to, move.reason, move.spend) == (JobState.FAILED, "no use", 1)
    assert move.error is not None


def test_snooze_scheduled_and_no_attempt_spent() -> None:
    move = decide(claimed(attempts=2), Snoozed(60))
    assert (move.to, move.delay, counted(move)) == (JobState.SCHEDULED, 60, (0, 0, 0))
    assert (move.error, move.cool) == (None, None)


def test_throttled_scheduled_and_the_whole_queue_cools_down() -> None:
    move = decide(claimed(attempts=2), WasThrottled(60, "429"))
    assert (move.to, move.delay, move.cool) == (JobState.SCHEDULED, 60, 60)
    assert (counted(move), move.error) == ((0, 0, 0), None)


def test_suspend_suspended_and_no_attempt_spent() -> None:
    asleep, waiting = (decide(claimed(), WasSuspended(seconds)) for seconds in (60, None))
    assert (asleep.to, asleep.delay, counted(asleep)) == (JobState.SUSPENDED, 60, (0, 0, 0))
    assert (waiting.to, waiting.delay) == (JobState.SUSPENDED, None)


def test_shutdown_handed_back_to_ready_and_no_attempt_spent() -> None:
    move = decide(claimed(), HandedBack())
    assert (move.to, move.delay, counted(move)) == (JobState.READY, None, (0, 0, 0))


def test_put_off_scheduled_and_no_attempt_spent() -> None:
    move = decide(claimed(), PutOff(0.2, "not beside another"))
    assert (move.to, move.delay, counted(move)) == (JobState.SCHEDULED, 0.2, (0, 0, 0))


def test_arguments_that_do_not_fit_fail_whatever_attempts_are_left() -> None:
    move = decide(claimed(), DoesNotFit("it takes no 'title'"))
    assert (move.to, counted(move)) == (JobState.FAILED, (1, 0, 0))
    assert move.error is not None
    assert (move.error.kind, move.error.message) == ("BadArguments", "it takes no 'title'")


def test_reclaimed_uncharged_ready_with_a_newer_fence() -> None:
    move = decide(live(JobState.RUNNING, attempts=2), Reclaimed("it had not begun"))
    assert (move.to, move.reason, counted(move)) == (JobState.READY, "it had not begun", (0, 0, 1))


def test_reclaimed_keeps_its_reason_in_a_form_every_store_can_keep() -> None:
    move = decide(live(JobState.RUNNING), Reclaimed("not\x00begun"))
    assert move.reason == "not\ufffdbegun"


def test_reclaimed_under_suspicion_a_crash_is_counted_but_never_the_last() -> None:
    suspected = Reclaimed("beside a suspect", suspected=True)
    assert counted(decide(live(JobState.RUNNING), suspected)) == (0, 1, 1)
    touchy = decide(claimed(Policy(max_crashes=1)), suspected)
    assert (touchy.to, counted(touchy)) == (JobState.READY, (0, 0, 1))


def test_worker_lost_as_raises_and_a_crash_is_counted() -> None:
    move = decide(live(JobState.RUNNING), WorkerLost())
    assert (move.to, move.delay, counted(move)) == (JobState.SCHEDULED, 4, (1, 1, 1))
    assert move.error is not None
    assert (move.error.kind, move.error.message) == ("WorkerLost", "worker lost")


def test_worker_lost_too_often_failed_whatever_attempts_are_left() -> None:
    patient = Policy(retry=Retry(max_attempts=99), max_crashes=3)
    assert decide(claimed(patient, attempts=1, crashes=1), WorkerLost()).to is JobState.SCHEDULED
    move = decide(claimed(patient, attempts=2, crashes=2), WorkerLost())
    assert (move.to, move.reason, counted(move)) == (JobState.FAILED, "worker lost", (1, 1, 1))


def test_worker_lost_at_the_last_attempt_failed() -> None:
    assert decide(live(JobState.RUNNING, attempts=2), WorkerLost()).to is JobState.FAILED


def test_attempt_timeout_as_raises_with_a_newer_fence() -> None:
    move = decide(live(JobState.RUNNING), TimedOut(5))
    assert (move.to, move.delay, counted(move)) == (JobState.SCHEDULED, 4, (1, 0, 1))
    assert move.error is not None
    assert move.error.message == "timed out after 5 s"


def test_attempt_timeout_is_not_terminal_until_the_last_attempt() -> None:
    assert decide(live(JobState.RUNNING, attempts=1), TimedOut(5)).to is JobState.SCHEDULED
    assert decide(live(JobState.RUNNING, attempts=2), TimedOut(5)).to is JobState.FAILED


@pytest.mark.parametrize(
    "end",
    [
        BOOM,
        Raised("Fail", "no", final=True),
        Snoozed(1),
        WasThrottled(1, "429"),
        WasSuspended(None),
        HandedBack(),
        PutOff(1, "not beside another"),
        Reclaimed("it had not begun"),
        WorkerLost(),
        TimedOut(1),
        Cancelled(),
    ],
    ids=lambda end: type(end).__name__,
)
def test_cancel_requested_any_end_but_a_return_is_cancelled(end: End) -> None:
    move = decide(claimed(), end, cancel_requested=True)
    assert (move.to, move.keep_for, move.delay) == (JobState.CANCELLED, 30, None)
    assert move.cool is None


def test_cancel_requested_a_return_that_happened_stands() -> None:
    assert decide(claimed(), Returned("1"), cancel_requested=True).to is JobState.SUCCEEDED


def test_cancel_of_a_running_job_leaves_a_newer_fence() -> None:
    assert decide(live(JobState.RUNNING), Cancelled()).bump == 1
    assert decide(live(JobState.READY), Cancelled()).bump == 0


def test_cancel_keeps_its_reason_in_a_form_every_store_can_keep() -> None:
    assert decide(claimed(), Cancelled("no\x00t needed")).reason == "no\ufffdt needed"


@pytest.mark.parametrize(
    "state", [JobState.READY, JobState.SCHEDULED, JobState.SUSPENDED, JobState.RUNNING]
)
def test_deadline_passed_expired_from_any_live_state(state: JobState) -> None:
    move = decide(live(state), DeadlinePassed())
    assert (move.source, move.to, move.bump) == (state, JobState.EXPIRED, 1)
    assert (move.reason, move.keep_for) == ("deadline passed", 30)


def test_deadline_passed_beats_a_cancel() -> None:
    move = decide(live(JobState.RUNNING), DeadlinePassed(), cancel_requested=True)
    assert move.to is JobState.EXPIRED


# Waits and texts ------------------------------------------------------------------------------


@pytest.mark.parametrize("nonsense", [-5, -math.inf, math.inf, math.nan])
def test_a_wait_that_makes_no_sense_is_no_wait(nonsense: float) -> None:
    assert decide(claimed(), Snoozed(nonsense)).delay == 0
    assert decide(claimed(), WasSuspended(nonsense)).delay == 0
    assert decide(claimed(), WasThrottled(nonsense, "")).cool == 0


@pytest.mark.parametrize("nonsense", [-5, math.inf, math.nan])
def test_the_reason_says_that_a_throttle_asked_for_nonsense(nonsense: float) -> None:
    reason = decide(claimed(), WasThrottled(nonsense, "429")).reason
    assert reason is not None
    assert f"it asked to wait {nonsense:g} s, which counts as 0" in reason
    assert decide(claimed(), WasThrottled(5, "429")).reason == "throttled: 429"


def test_a_wait_stays_within_what_a_clock_can_count() -> None:
    assert decide(claimed(), Snoozed(1e300)).delay == LONGEST_WAIT
    assert decide(claimed(), Raised("E", "", retry_after=1e300)).delay == LONGEST_WAIT


def test_long_messages_are_cut() -> None:
    move = decide(claimed(), Raised("E" * 999, "é" * 99_999, "x" * 99_999 + "the end"))
    assert move.error is not None
    assert len(move.error.kind) == 256
    assert len(move.error.message) == MESSAGE_LIMIT
    assert move.error.traceback is not None
    assert len(move.error.traceback) == TRACEBACK_LIMIT
    assert move.error.traceback.endswith("the end")


def test_clean_keeps_what_fits() -> None:
    assert clean("naïve 🦊", 100) == "naïve 🦊"
    assert clean("exactly", 7) == "exactly"


def test_clean_cuts_at_either_end_and_shows_it() -> None:
    assert clean("abcdef", 4) == "abc…"
    assert clean("abcdef", 4, keep_end=True) == "…def"
    assert clean("abcdef", 1, keep_end=True) == "…"


def test_clean_replaces_what_no_store_can_keep() -> None:
    assert clean("a\x00b\ud800c", 10) == "a\ufffdb?c"


@pytest.mark.parametrize("end", [Snooze, Suspend])
def test_a_wait_may_be_a_timedelta_and_a_text_is_named_as_the_mistake(
    end: type[Snooze | Suspend],
) -> None:
    assert end(timedelta(minutes=2)).seconds == 120.0
    with pytest.raises(BadOption, match="must be seconds or a timedelta, got 'for a human'"):
        end("for a human")  # type: ignore[arg-type]


def test_every_error_has_the_fingerprint_of_its_cause() -> None:
    job, defect = claimed(), RuntimeError("no")
    alike = [Raised("ValueError", f"order {n} is bad", BOOM.traceback) for n in range(9)]
    raised = {fingerprint_of(decide(job, end)) for end in alike}
    others = [decide(job, WorkerLost()), decide(job, TimedOut(3)), undecidable(job, defect)]
    others.append(unwritable(decide(job, Returned("1")), defect))
    assert len(raised) == 1
    assert len({*raised, *map(fingerprint_of, others)}) == 5


def fingerprint_of(move: Transition) -> str:
    assert move.error is not None
    assert move.error.fingerprint is not None
    return move.error.fingerprint
