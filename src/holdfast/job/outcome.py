"""The end of an attempt becomes a `Transition`: the one place that decides.

`decide(job, end)` is pure. The worker calls it when a handler ends, and a reconciler when time has
ended an attempt. A store then applies the transition if the fence still matches; it knows no policy
of its own. Transitions for jobs that nobody can decide about are made here too.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any, assert_never

import msgspec

from holdfast.job.checks import LONGEST_WAIT
from holdfast.job.ends import (
    Cancelled,
    DeadlinePassed,
    End,
    HandedBack,
    PutOff,
    Raised,
    Reclaimed,
    Released,
    Returned,
    Skipped,
    Snoozed,
    TimedOut,
    WasSuspended,
    WasThrottled,
    WorkerLost,
)
from holdfast.job.ids import JobId
from holdfast.job.policy import DAY, Policy, decode_policy, readable_part
from holdfast.job.record import Claimed, ErrorEntry, Job, Live, times_taken
from holdfast.job.retry import UniformRandom, exception_names
from holdfast.job.state import SUCCEEDED, UNDONE, JobState, require_legal
from holdfast.job.step import StepRecord
from holdfast.job.text import MESSAGE_LIMIT, TRACEBACK_LIMIT, clean, describe
from holdfast.job.ties import BINDING, NO_TIES, NODE, PERMITS
from holdfast.job.what import OF_ENDED, What

LEFT = "left for a worker that can read it"
LEFT_FOR, LEFT_AT_MOST = 2.0, 120.0  # seconds that an unreadable job waits, first and at most
SIGNAL_IS_THERE = "what it waits for is there already"
UNWRITABLE = "the store could not take this attempt's end"
TIMEOUT_NAMES = exception_names(TimeoutError)
LAST_RESORT_KEPT_FOR = 30 * DAY
"""Seconds that a job is kept which failed without its policy being asked."""


_ONLY_RETURNED = (JobState.SUCCEEDED, JobState.RUNNING, 1, 0, 0, None, None, None, None, ())


class Settles(StrEnum):
    """What becomes of a reserved part of a budget that no report settles, when an attempt ends."""

    UNBEGUN = "unbegun"  # nothing was done: all is given back, also to rates
    ESTIMATE = "estimate"  # it returned: the reservation is spent
    CHARGE = "charge"  # it failed: the budget says whether the reservation is spent
    REFUND = "refund"  # it did not end by its own fault, or goes on later


class Transition(msgspec.Struct, frozen=True, gc=False):
    """One guarded move. It applies only while the job is in `source` with this `fence`.

    `spend` and `crash` add to the job's counters. `bump` makes the fence grow although no claim
    happens: the attempt was taken from its worker, and a late write by that worker must find a
    newer fence. A move to scheduled is due after `delay` by the store's clock, or at `run_at`. An
    ended job is kept for `keep_for` seconds, None for ever. `ties` are those of the job: a store
    takes a shorter way only for a job without any. `drains` names a limit: the bucket of it that
    the job passes is shut for `delay`; if there is no such limit, the queue cools down as long.
    `why` is the word for a move to a live state.
    `by` names the operator who asked for the move. `steps` are records of the attempt that are
    written with its end. `spent` is what the attempt has spent of budgets in all, by limit. An
    attempt that has not `begun` gives back what rates have counted.
    """

    id: JobId
    fence: int
    to: JobState
    source: JobState = JobState.RUNNING
    spend: int = 0
    crash: int = 0
    bump: int = 0
    delay: float | None = None
    run_at: datetime | None = None
    keep_for: float | None = 0.0
    result: str | None = None
    reason: str | None = None
    error: ErrorEntry | None = None
    cool: float | None = None
    drains: str | None = None
    ties: int = NO_TIES
    why: What | None = None
    by: str | None = None
    steps: tuple[StepRecord, ...] = ()
    spent: tuple[tuple[str, int], ...] = ()
    begun: bool = True

    @property
    def settles(self) -> Settles:
        """What becomes of what the attempt has reserved of budgets and not reported."""
        if not self.begun:
            return Settles.UNBEGUN
        if self.to is JobState.SUCCEEDED:
            return Settles.ESTIMATE
        failed = self.to in UNDONE or self.why in (What.RETRIED, What.TIMED_OUT)
        return Settles.CHARGE if failed and not self.crash else Settles.REFUND

    @property
    def what(self) -> What:
        """The word under which a store counts the move."""
        word = OF_ENDED.get(self.to, self.why)
        if word is None:
            raise TypeError(f"a move to {self.to} must say why")
        return word

    @property
    def message(self) -> str | None:
        """What the happening of this move says beside its word."""
        if self.error is not None:
            return self.error.message
        return None if self.reason == self.what.replace("_", " ") else self.reason

    @property
    def awaits(self) -> frozenset[str]:
        """The signals that the job is to be suspended for."""
        if self.to is not JobState.SUSPENDED:
            return frozenset()
        return frozenset(one.awaits for one in self.steps if one.awaits is not None)

    def without_wait(self) -> Transition:
        """The move of a job that is not suspended after all: what it waits for is there."""
        return msgspec.structs.replace(
            self, to=JobState.READY, delay=None, reason=SIGNAL_IS_THERE, why=What.RESUMED
        )

    @property
    def is_plain_success(self) -> bool:
        """Whether an untied job returned and nothing else has to be written. Nearly all ends are
        like this, and a store may have a shorter way for them."""
        return not self.ties & BINDING and self._only_returned

    @property
    def is_plain_success_of_node(self) -> bool:
        """The same of a job that is tied to nothing but its flow."""
        return self.ties & BINDING == NODE and self._only_returned

    @property
    def is_plain_success_with_permits(self) -> bool:
        """The same of a job that is tied to nothing but what limits have counted of it."""
        return self.ties & BINDING == PERMITS and self._only_returned

    @property
    def _only_returned(self) -> bool:
        """Asked of every end, so it is one comparison and not ten."""
        return (
            self.to,
            self.source,
            self.spend,
            self.crash,
            self.bump,
            self.reason,
            self.error,
            self.cool,
            self.drains,
            self.steps,
        ) == _ONLY_RETURNED


def decide(  # noqa: C901 - one arm per line of the table it states
    job: Claimed | Live,
    end: End,
    *,
    cancel_requested: bool = False,
    uniform: UniformRandom = random.random,
) -> Transition:
    """The move that follows from this end of this attempt.

    After a requested cancel every end means "cancelled", except a return, which stands, and a
    passed deadline.

    Only the job's policy says whether the job is tried again. If this version cannot read the
    policy, such an end raises `Unreadable`: a program that can read it must decide. Every other
    end needs only the part of the policy that can be read.
    """
    if isinstance(end, Returned):  # nearly every attempt ends so: it pays for no other arm
        policy = readable_part(job.policy)
        return Transition(
            job.id,
            job.fence,
            SUCCEEDED,
            job.state,
            spend=1,
            keep_for=policy.retention.succeeded,
            result=end.result if policy.keep_result else None,
            ties=job.ties,
        )
    if cancel_requested and not isinstance(end, DeadlinePassed):
        end = _cancelled_instead_of(end)
    policy = decode_policy(job.policy) if _is_tried_again(end) else readable_part(job.policy)
    move = _Mover(job, policy, uniform)
    match end:
        case Raised(final=True):
            return move.failed(_entry(job, end.kind, end.message, end.traceback))
        case Raised(kind, message, traceback):
            return move.after_failure(_entry(job, kind, message, traceback), end)
        case TimedOut(seconds):
            entry = _entry(job, "TimedOut", f"timed out after {seconds:g} s")
            return move.timed_out(entry)
        case WorkerLost(how):
            return move.crashed(_entry(job, "WorkerLost", how))
        case Snoozed(until=datetime() as until):
            return move.waiting(JobState.SCHEDULED, None, "snoozed", What.SNOOZED, run_at=until)
        case Snoozed(seconds):
            return move.waiting(JobState.SCHEDULED, _wait(seconds), "snoozed", What.SNOOZED)
        case WasThrottled(retry_after, message, limit):
            said = f"throttled: {message}{_mistaken(retry_after)}"
            return move.throttled(_wait(retry_after), clean(said, MESSAGE_LIMIT), limit)
        case WasSuspended(seconds, reason):
            wake, reason = None if seconds is None else _wait(seconds), clean(reason, MESSAGE_LIMIT)
            return move.waiting(JobState.SUSPENDED, wake, reason, What.SUSPENDED)
        case HandedBack(begun):
            why = What.HANDED_BACK
            return move.waiting(JobState.READY, None, "handed back", why, begun=begun)
        case PutOff(seconds, said):
            wait, reason = _wait(seconds), clean(said, MESSAGE_LIMIT)
            return move.waiting(JobState.SCHEDULED, wait, reason, What.PUT_OFF, begun=False)
        case Reclaimed(why, suspected):
            return move.reclaimed(why, suspected)
        case Cancelled(reason, by):
            shown, bump = clean(reason, MESSAGE_LIMIT), job.state is JobState.RUNNING
            return move.ended(JobState.CANCELLED, reason=shown, bump=bump, by=by)
        case DeadlinePassed():
            reason = "not started in time" if policy.start_only else "deadline passed"
            return move.ended(JobState.EXPIRED, reason=reason, bump=1)
        case Released(seconds):
            to = JobState.READY if seconds is None else JobState.SCHEDULED
            return move.waiting(to, seconds, "released", What.RELEASED)
        case Skipped(reason):
            return move.ended(JobState.SKIPPED, reason=clean(reason, MESSAGE_LIMIT))
    assert_never(end)


def has_started_in_time(job: Claimed | Live | Job) -> bool:
    """Whether a deadline no longer counts, because it bounds only the start and the job has begun:
    it runs, is suspended, or has spent an attempt. A job that was snoozed or throttled has not
    begun: its handler said "not now"."""
    begun = job.attempts > 0 or job.state in (JobState.RUNNING, JobState.SUSPENDED)
    return begun and readable_part(job.policy).start_only


def require_legal_moves(transitions: Iterable[Transition]) -> None:
    """Every store calls this before it applies moves other than plain successes."""
    for move in transitions:
        require_legal(move.source, move.to)


def leave(job: Claimed, problem: Exception) -> Transition:
    """A claimed job that this version cannot read goes back unspent, for a worker that can.

    The job waits longer after each claim. So a fleet that cannot read it does not claim it over
    and over, and a worker of another release finds it within minutes.
    """
    wait = min(LEFT_FOR * 2.0 ** min(times_taken(job.fence), 20), LEFT_AT_MOST)
    reason = clean(f"{LEFT}: {problem}", MESSAGE_LIMIT)
    return Transition(
        job.id,
        job.fence,
        JobState.SCHEDULED,
        delay=wait,
        reason=reason,
        ties=job.ties,
        why=What.PUT_OFF,
        begun=False,
    )


def undecidable(job: Claimed, problem: Exception) -> Transition:
    """The end of an attempt that a defect of ours kept from being decided: the job fails with the
    reason, so that it is neither stuck nor run again."""
    message = clean(f"the end of this attempt could not be decided: {describe(problem)}", 2_000)
    return Transition(
        job.id,
        job.fence,
        JobState.FAILED,
        spend=1,
        keep_for=LAST_RESORT_KEPT_FOR,
        reason=message,
        error=_entry(job, type(problem).__name__, message),
        ties=job.ties,
    )


def unwritable(refused: Transition, problem: Exception) -> Transition:
    """What is written instead of an end that the store cannot take: a failure in plain ASCII. The
    cause is the store's, so the fingerprint is the same for every task; where the end had no error,
    nobody knows the number of the attempt, and it is 0."""
    reason = clean(f"{UNWRITABLE} ({refused.to}): {describe(problem)}", 2_000)
    message = reason.encode("ascii", "replace").decode()
    attempt = 0 if refused.error is None else refused.error.attempt
    name = _fingerprint("", "Unwritable", message)
    return Transition(
        refused.id,
        refused.fence,
        JobState.FAILED,
        spend=1,
        keep_for=LAST_RESORT_KEPT_FOR,
        reason=message,
        error=ErrorEntry(attempt, "Unwritable", message, fingerprint=name),
        ties=refused.ties,
    )


def _is_tried_again(end: End) -> bool:
    return isinstance(end, TimedOut | WorkerLost) or (isinstance(end, Raised) and not end.final)


class _Mover(msgspec.Struct, frozen=True):
    """Writes the transitions that `decide` chooses between."""

    job: Claimed | Live
    policy: Policy
    uniform: UniformRandom

    def _to(self, state: JobState, **what: Any) -> Transition:
        job = self.job
        return Transition(job.id, job.fence, state, job.state, ties=job.ties, **what)

    def ended(
        self,
        to: JobState,
        *,
        spend: int = 0,
        crash: int = 0,
        bump: int = 0,
        reason: str | None = None,
        error: ErrorEntry | None = None,
        by: str | None = None,
    ) -> Transition:
        return self._to(
            to,
            spend=spend,
            crash=crash,
            bump=int(bump),
            keep_for=self.policy.retention.keep_for(to),
            reason=reason,
            error=error,
            by=by,
        )

    def waiting(
        self,
        to: JobState,
        delay: float | None,
        reason: str,
        why: What,
        *,
        run_at: datetime | None = None,
        begun: bool = True,
    ) -> Transition:
        return self._to(to, delay=delay, run_at=run_at, reason=reason, why=why, begun=begun)

    def throttled(self, wait: float, reason: str, limit: str | None) -> Transition:
        """A limit that is named shuts for everybody; otherwise the whole queue cools down."""
        how = {"cool": wait} if limit is None else {"drains": limit}
        return self._to(JobState.SCHEDULED, delay=wait, reason=reason, why=What.THROTTLED, **how)

    def failed(self, error: ErrorEntry, *, crash: int = 0, bump: int = 0) -> Transition:
        return self.ended(
            JobState.FAILED, spend=1, crash=crash, bump=bump, reason=error.message, error=error
        )

    def after_failure(self, error: ErrorEntry, end: Raised) -> Transition:
        if not self.policy.retry.covers(end.names):
            return self.failed(error)
        if end.retry_at is not None:
            return self.retried(error, run_at=end.retry_at)
        hinted = end.retry_after is not None and math.isfinite(end.retry_after)
        return self.retried(error, _wait(end.retry_after) if hinted else None)

    def timed_out(self, error: ErrorEntry) -> Transition:
        """The handler may not have heard of it, but it counts as a TimeoutError of its own."""
        if not self.policy.retry.covers(TIMEOUT_NAMES):
            return self.failed(error, bump=1)
        return self.retried(error, bump=1, why=What.TIMED_OUT)

    def retried(
        self,
        error: ErrorEntry,
        delay: float | None = None,
        *,
        run_at: datetime | None = None,
        crash: int = 0,
        bump: int = 0,
        why: What = What.RETRIED,
    ) -> Transition:
        """Scheduled after `delay`, at `run_at`, or by the policy's backoff; failed if the job has
        no attempt left."""
        spent = self.job.attempts + 1
        if not self.policy.retry.allows(spent):
            return self.failed(error, crash=crash, bump=bump)
        if delay is None and run_at is None:
            delay = self.policy.retry.delay(spent, self.uniform)
        reason = f"retry after: {error.message}"[:MESSAGE_LIMIT]
        return self._to(
            JobState.SCHEDULED,
            spend=1,
            crash=crash,
            bump=bump,
            delay=delay,
            run_at=run_at,
            reason=reason,
            error=error,
            why=why,
        )

    def reclaimed(self, why: str, suspected: bool) -> Transition:
        """A suspected job counts a crash, but never its last one: a job fails for its crashes only
        when it is known to have caused one."""
        crash = int(suspected and self.job.crashes + 1 < self.policy.max_crashes)
        return self._to(JobState.READY, crash=crash, bump=1, reason=why, why=What.LOST)

    def crashed(self, error: ErrorEntry) -> Transition:
        """A job that keeps killing its worker is put aside, whatever attempts are left."""
        if self.job.crashes + 1 >= self.policy.max_crashes:
            return self.failed(error, crash=1, bump=1)
        return self.retried(error, crash=1, bump=1, why=What.LOST)


def _cancelled_instead_of(end: End) -> Cancelled:
    return end if isinstance(end, Cancelled) else Cancelled()


def _entry(
    job: Claimed | Live, kind: str, message: str, traceback: str | None = None
) -> ErrorEntry:
    """The fingerprint is made of the whole texts: what is cut off differs with their lengths."""
    return ErrorEntry(
        job.attempt,
        clean(kind, 256),
        clean(message, MESSAGE_LIMIT),
        None if traceback is None else clean(traceback, TRACEBACK_LIMIT, keep_end=True),
        fingerprint=_fingerprint(job.task, kind, message, traceback),
    )


def _fingerprint(task: str, kind: str, message: str, traceback: str | None = None) -> str:
    return _fingerprints()(task, kind, message, traceback)


@cache
def _fingerprints() -> Callable[[str, str, str, str | None], str]:
    """Imported with the first error: a program that only enqueues never has one, and its start
    would pay for the patterns."""
    from holdfast.job.fingerprint import fingerprint

    return fingerprint


def _mistaken(seconds: float | None) -> str:
    """What people are told of a pause that nobody can keep. An upstream may have computed it, so it
    is no error of the handler."""
    if seconds is None or 0 <= seconds < math.inf:
        return ""
    return f" (it asked to wait {seconds:g} s, which counts as 0: the shortest pause)"


def _wait(seconds: float | None) -> float:
    """The wait that a handler asked for. Nonsense (negative, NaN) means now, and is no error. A
    wait is cut to what a store's clock can count: a longer one could never be written."""
    if seconds is None or not math.isfinite(seconds):
        return 0.0
    return min(max(0.0, float(seconds)), LONGEST_WAIT)
