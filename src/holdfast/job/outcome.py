"""The end of an attempt becomes a `Transition`: the one place that decides.

`decide(job, end)` is pure. The worker calls it when a handler ends, and a reconciler when time has
ended an attempt. A store then applies the transition if the fence still matches; it knows no policy
of its own. Transitions for jobs that nobody can decide about are made here too.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import assert_never

from holdfast.errors import BadArguments
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
    Snoozed,
    TimedOut,
    WasSuspended,
    WasThrottled,
    WorkerLost,
)
from holdfast.job.mover import Mover, wait_seconds
from holdfast.job.policy import DAY, decode_policy, readable_part
from holdfast.job.record import Claimed, ErrorEntry, Job, Live, times_taken
from holdfast.job.retry import UniformRandom
from holdfast.job.state import SUCCEEDED, JobState
from holdfast.job.text import MESSAGE_LIMIT, TRACEBACK_LIMIT, clean, describe
from holdfast.job.transition import Transition
from holdfast.job.what import What

LEFT = "left for a worker that can read it"
NO_READER = "no live worker could read them"
"""Why a job failed whose arguments did not fit."""
LEFT_FOR, LEFT_AT_MOST = 2.0, 120.0  # seconds that an unreadable job waits, first and at most
UNWRITABLE = "the store could not take this attempt's end"
LAST_RESORT_KEPT_FOR = 30 * DAY
"""Seconds that a job is kept which failed without its policy being asked."""


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
    move = Mover(job, policy, uniform)
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
            return move.waiting(JobState.SCHEDULED, wait_seconds(seconds), "snoozed", What.SNOOZED)
        case WasThrottled(retry_after, message, limit):
            said = f"throttled: {message}{_mistaken(retry_after)}"
            return move.throttled(wait_seconds(retry_after), clean(said, MESSAGE_LIMIT), limit)
        case WasSuspended(seconds, reason):
            wake = None if seconds is None else wait_seconds(seconds)
            why = clean(reason, MESSAGE_LIMIT)
            return move.waiting(JobState.SUSPENDED, wake, why, What.SUSPENDED)
        case HandedBack(begun):
            what = What.HANDED_BACK
            return move.waiting(JobState.READY, None, "handed back", what, begun=begun)
        case PutOff(seconds, said):
            wait, reason = wait_seconds(seconds), clean(said, MESSAGE_LIMIT)
            return move.waiting(JobState.SCHEDULED, wait, reason, What.PUT_OFF, begun=False)
        case DoesNotFit(problem):
            return move.failed(_entry(job, BadArguments.__name__, problem))
        case Reclaimed(why, suspected):
            return move.reclaimed(clean(why, MESSAGE_LIMIT), suspected)
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
