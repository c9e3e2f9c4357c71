"""How an attempt can end: what a handler may raise to choose it, and every end as a value."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

import msgspec

from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.line_rule import Passing
from holdfast.job.passing import require_own_name

# What a handler may raise to end its attempt in a chosen way ---------------------------


class AttemptEnd(Exception):
    """Base of what a handler raises to choose how its attempt ends."""


class Fail(AttemptEnd):
    """End the job as failed now, whatever attempts are left."""


class Cancel(AttemptEnd):
    """End the job as cancelled now: what it was to do is no longer wanted. No failure, no retry."""

    def __init__(self, reason: str = "cancelled by its handler") -> None:
        self.reason = checks.shown_text("the reason of Cancel", reason)
        super().__init__(self.reason)


class Skip(AttemptEnd):
    """End the job as skipped: there was nothing to do. No failure, no retry. In a flow, nodes that
    need this one are skipped too, and the flow does not fail for it."""

    def __init__(self, reason: str = "nothing to do") -> None:
        self.reason = checks.shown_text("the reason of Skip", reason)
        super().__init__(self.reason)


class TryAgain(AttemptEnd):
    """This attempt failed: try again after `delay` or `at` that time, or by the job's own backoff.
    It spends an attempt and is final if none is left, but no `Retry(on=…, not_on=…)` stops it."""

    def __init__(
        self,
        message: str = "try again",
        *,
        delay: float | timedelta | None = None,
        at: datetime | None = None,
    ) -> None:
        if delay is not None and at is not None:
            raise BadOption("the wait of TryAgain", "delay=… or at=…", "both")
        super().__init__(checks.shown_text("the message of TryAgain", message))
        self.retry_after = None if delay is None else _asked("TryAgain", delay)
        self.retry_at = None if at is None else checks.moment("TryAgain(at=…)", at)


class Snooze(AttemptEnd):
    """Run again after `seconds`, or at the time `until`, without spending an attempt."""

    def __init__(
        self, seconds: float | timedelta | None = None, *, until: datetime | None = None
    ) -> None:
        if (seconds is None) == (until is None):
            got = "neither" if seconds is None else "both"
            raise BadOption("the wait of Snooze", "seconds or until=…", got)
        self.seconds = None if seconds is None else _asked("Snooze", seconds)
        self.until = None if until is None else checks.moment("Snooze(until=…)", until)
        super().__init__(
            f"snoozed for {self.seconds:g} s" if until is None else f"snoozed until {until}"
        )


class Throttled(AttemptEnd):
    """An upstream said slow down: run again later and let the whole queue cool down.

    With a `limit` the queue goes on, and only the bucket of this limit that the job passes is shut
    for `retry_after`, for all workers. If there is no such limit, the queue cools down after all.
    `retry_after` may be the text of an HTTP header that gives seconds. Below 0 or infinite, as an
    upstream may have computed it, it counts as 0: the shortest pause, `throttle_base` of the queue
    (1 s). The reason of the job says so.
    """

    def __init__(
        self,
        retry_after: float | timedelta | str = 0.0,
        message: str = "throttled",
        *,
        limit: Passing | str | None = None,
    ) -> None:
        super().__init__(message)
        self.retry_after = _asked("Throttled", _unquoted(retry_after))
        self.limit = limit.limit if isinstance(limit, Passing) else limit
        if self.limit is not None:
            require_own_name(self.limit)


class Suspend(AttemptEnd):
    """Give up the slot until resumed, or until `seconds` have passed; same attempt after."""

    reason = "suspended"

    def __init__(self, seconds: float | timedelta | None = None) -> None:
        self.seconds = None if seconds is None else _asked("Suspend", seconds)
        super().__init__("suspended" if seconds is None else f"suspended for {self.seconds:g} s")


class Suspending(BaseException):
    """By this a handler is left that sleeps. It is no `Exception`, so that no `except Exception` on
    the way swallows it; whoever must catch it raises it again. `finally` is run as ever."""

    def __init__(self) -> None:
        super().__init__(
            "the handler is left while its job sleeps, and called again afterwards: let this pass, "
            "and catch Exception, not BaseException"
        )


def _asked(what: str, wait: object) -> float:
    """The seconds a handler asks for; a text here is most often a reason in the wrong place.

    What an upstream may have computed wrongly (a negative number, NaN) is no error of the handler:
    `outcome.decide` takes it for now.
    """
    if isinstance(wait, timedelta):
        return wait.total_seconds()
    if isinstance(wait, float):
        return float(wait)
    seconds = checks.number(wait)
    if math.isnan(seconds):
        raise BadOption(f"the wait of {what}", "seconds or a timedelta", wait)
    return seconds


def _unquoted(retry_after: object) -> object:
    if not isinstance(retry_after, str):
        return retry_after
    try:
        return float(retry_after)
    except ValueError:
        return retry_after


# How an attempt ended, as values --------------------------------------------------------


class Returned(msgspec.Struct, frozen=True, tag=True, gc=False):
    result: str | None


class Raised(msgspec.Struct, frozen=True, tag=True):
    kind: str
    message: str
    traceback: str | None = None
    retry_after: float | None = None
    final: bool = False
    retry_at: datetime | None = None
    names: tuple[str, ...] = ()
    """Of the exception and its base classes, as `Retry.covers` compares them."""


class Snoozed(msgspec.Struct, frozen=True, tag=True):
    seconds: float | None
    until: datetime | None = None


class WasThrottled(msgspec.Struct, frozen=True, tag=True):
    """`limit` is the name of the limit that is to shut; None lets the queue cool down."""

    retry_after: float | None
    message: str
    limit: str | None = None


ASLEEP = "sleeps"
"""Why a handler was left that did not say for how long: its worker knows."""


class WasSuspended(msgspec.Struct, frozen=True, tag=True):
    """`reason` says what the job waits for, if more than a time is known."""

    seconds: float | None
    reason: str = "suspended"


class HandedBack(msgspec.Struct, frozen=True, tag=True):
    """The worker gives the job up unfinished: shutdown, or a lost right to run it. `begun` False:
    its handler was never called."""

    begun: bool = True


class PutOff(msgspec.Struct, frozen=True, tag=True):
    """The worker gives the job up unbegun, for a moment: it may not begin beside others there."""

    seconds: float
    why: str


class DoesNotFit(msgspec.Struct, frozen=True, tag=True):
    """The arguments do not fit the function, so it was not called. A worker asks whether another
    one may read them before it lets the job fail (`worker.misfits`)."""

    problem: str


class Reclaimed(msgspec.Struct, frozen=True, tag=True):
    """The worker is gone, and the job pays no attempt for it: the job had not begun, or another
    job is to blame, or it was the store that was away. A `suspected` one counts a crash."""

    why: str
    suspected: bool = False


class WorkerLost(msgspec.Struct, frozen=True, tag=True):
    how: str = "worker lost"


class TimedOut(msgspec.Struct, frozen=True, tag=True):
    seconds: float


class Cancelled(msgspec.Struct, frozen=True, tag=True):
    """`by` names the operator who asked for it, if one did."""

    reason: str = "cancelled on request"
    by: str | None = None


class DeadlinePassed(msgspec.Struct, frozen=True, tag=True):
    pass


class Released(msgspec.Struct, frozen=True, tag=True):
    """A blocked job has what it waited for: it is ready, or due after so many seconds."""

    seconds: float | None = None


class Skipped(msgspec.Struct, frozen=True, tag=True):
    """A blocked job will never have what it waited for, or a handler found nothing to do."""

    reason: str


End = (
    Returned
    | Raised
    | Snoozed
    | WasThrottled
    | WasSuspended
    | HandedBack
    | PutOff
    | DoesNotFit
    | Reclaimed
    | WorkerLost
    | TimedOut
    | Cancelled
    | DeadlinePassed
    | Released
    | Skipped
)
