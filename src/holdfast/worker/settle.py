"""How an attempt ended and what it was told to do, together, become the transition to write."""

from __future__ import annotations

from holdfast.job.ends import Cancelled, DeadlinePassed, End, HandedBack, Raised, TimedOut
from holdfast.job.outcome import Transition, decide
from holdfast.job.policy import DAY
from holdfast.job.record import Claimed, ErrorEntry
from holdfast.job.state import JobState
from holdfast.job.text import clean, describe
from holdfast.worker.attempt import Attempt, Stop


def settle(attempt: Attempt, end: End) -> Transition | None:
    """The transition to write, or None when the attempt is no longer ours to end."""
    if attempt.stop is Stop.LOST:
        return None
    end = _given_stop(attempt, end)
    try:
        return decide(attempt.job, end, cancel_requested=attempt.cancel_requested)
    except Exception as problem:  # noqa: BLE001 - an undecidable job must still end, visibly
        return undecidable(attempt.job, problem)


def _given_stop(attempt: Attempt, end: End) -> End:
    match attempt.stop:
        case Stop.TIMEOUT if not attempt.begun:
            return HandedBack()  # it waited for a thread or a child: no attempt was made
        case Stop.TIMEOUT:
            return TimedOut(attempt.policy.timeout or 0.0)
        case Stop.DEADLINE:
            return DeadlinePassed()
        case Stop.CANCEL:
            return Cancelled()
        case Stop.HANDBACK if isinstance(end, Raised) and not end.final:
            return HandedBack()
        case _:
            return end


def undecidable(job: Claimed, problem: Exception) -> Transition:
    """Last resort for an attempt whose end is a defect of ours: ended, with the reason, never
    stuck. Its policy was read before it began."""
    message = clean(f"the end of this attempt could not be decided: {describe(problem)}", 2_000)
    entry = ErrorEntry(job.attempt, type(problem).__name__, message)
    return Transition(
        job.id,
        job.fence,
        JobState.FAILED,
        spend=1,
        keep_for=30 * DAY,
        reason=message,
        error=entry,
    )
