"""How an attempt ended and what it was told to do, together, become the transition to write."""

from __future__ import annotations

from holdfast.job.ends import Cancelled, DeadlinePassed, End, HandedBack, Raised, Returned, TimedOut
from holdfast.job.outcome import Transition, decide, undecidable
from holdfast.worker.attempt import Attempt, Stop


def settle(attempt: Attempt, end: End) -> Transition | None:
    """The transition to write, or None when the attempt is no longer ours to end."""
    if attempt.stop is Stop.LOST:
        return None
    if not isinstance(end, Returned):  # a return stands, also if a stop came too late for it
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
