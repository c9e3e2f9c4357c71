"""What a handler's exception means for its attempt."""

from __future__ import annotations

import asyncio
import math
from datetime import datetime, timedelta
from typing import Any

import msgspec

from holdfast.codec.signature import Signature
from holdfast.errors import (
    BadOption,
    BadResult,
    CallFailed,
    ChildRaised,
    Denied,
    HoldfastError,
    StepFailed,
    StepRefused,
    StreamRefused,
)
from holdfast.handlers.tracebacks import format_traceback
from holdfast.job import checks
from holdfast.job.ends import (
    ASLEEP,
    Cancel,
    Cancelled,
    End,
    Fail,
    Raised,
    Returned,
    Skip,
    Skipped,
    Snooze,
    Snoozed,
    Suspend,
    Suspending,
    Throttled,
    TryAgain,
    WasSuspended,
    WasThrottled,
)
from holdfast.job.retry import exception_names
from holdfast.job.text import MESSAGE_LIMIT, clean, describe


def end_of(error: BaseException) -> End:  # noqa: C901 - one arm for each wish
    """The end that a raised exception stands for. An exception that is no wish of the handler is
    `Raised`, also SystemExit: a handler may end its attempt, never its worker."""
    match error:
        case Fail():
            return raised(error, final=True)
        case Cancel(reason=reason):
            return Cancelled(clean(reason, MESSAGE_LIMIT))
        case Skip(reason=reason):
            return Skipped(clean(reason, MESSAGE_LIMIT))
        case TryAgain():
            return raised(error, names=())
        case Snooze(seconds=seconds, until=until):
            return Snoozed(seconds, until)
        case Throttled(retry_after=seconds, limit=limit):
            return WasThrottled(seconds, clean(describe(error), MESSAGE_LIMIT), limit)
        case Suspend(seconds=seconds, reason=reason):
            return WasSuspended(seconds, reason)
        case EndedInChild(end=end):
            return end
        case CallFailed() | Denied():  # another attempt would hear the same
            return raised(error, final=True)
        case StepRefused() | StreamRefused():
            return refused(error)
        case _ if is_suspending(error):
            return WasSuspended(None, ASLEEP)
        case _:
            return raised(error)


def is_suspending(error: BaseException) -> bool:
    """Whether a handler was left because its job sleeps: also by several sleeps of a group."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(Suspending)[1] is None
    return isinstance(error, Suspending)


class EndedInChild(ChildRaised):
    """A child process ended its attempt in this way. A hook around the attempt may replace it."""

    def __init__(self, end: End) -> None:
        match end:
            case Raised(kind, message, traceback):
                super().__init__(kind, message, traceback)
            case _:
                super().__init__(type(end).__name__, str(getattr(end, "how", "")), None)
        self.end = end


def value_of(signature: Signature, end: End) -> Any:
    """What a function in a child process returned, for the hooks around it. Any other end is raised
    as the function would have raised it."""
    match end:
        case Returned(None):
            return None
        case Returned(str() as text):
            try:
                return signature.decode_result(text)
            except BadResult:  # kept all the same: the work is done
                return msgspec.json.decode(text)
        case Cancelled(reason):
            raise Cancel(reason)
        case Skipped(reason):
            raise Skip(reason)
        case Snoozed(seconds, until):
            raise Snooze(seconds, until=until)
        case WasThrottled(seconds, message, limit):
            raise Throttled(seconds or 0.0, message, limit=limit)
        case WasSuspended(None, why) if why == ASLEEP:
            raise Suspending
        case WasSuspended(seconds):
            raise Suspend(seconds)
        case _:
            raise EndedInChild(end)


def raised(
    error: BaseException, *, final: bool = False, names: tuple[str, ...] | None = None
) -> Raised:
    """A failed attempt. `names` are those of the exception, unless it goes by none."""
    retry_after, retry_at = _hints(error)
    if names is None:
        names = exception_names(type(error))
        if isinstance(error, StepFailed):
            names += _names_of_cause(error)
    return Raised(
        type(error).__name__,
        describe(error),
        _traceback(error),
        retry_after,
        final=final,
        retry_at=retry_at,
        names=names,
    )


def _names_of_cause(error: StepFailed) -> tuple[str, ...]:
    """A `Retry` of the job that names an exception means it also where a step raised it."""
    cause = error.__cause__
    return (error.kind,) if cause is None else exception_names(type(cause))


def refused(error: HoldfastError) -> Raised:
    """The end of an attempt that cannot get better by another try: its result cannot be kept, its
    function cannot be imported, or its arguments do not fit and no worker is asked."""
    return Raised(type(error).__name__, str(error), final=True)


def _hints(error: BaseException) -> tuple[float | None, datetime | None]:
    """After how many seconds, or at what time, the exception wants to be tried again."""
    if isinstance(error, TryAgain):
        return error.retry_after, error.retry_at
    if isinstance(error, StepFailed) and error.__cause__ is not None:
        return _hints(error.__cause__)
    try:
        hint = getattr(error, "retry_after", None)
    except Exception:  # noqa: BLE001 - a property of the user's own class; no hint is no harm
        return None, None
    if isinstance(hint, datetime):
        return None, _moment(hint)
    seconds = hint.total_seconds() if isinstance(hint, timedelta) else checks.number(hint)
    return seconds if math.isfinite(seconds) else None, None


def _moment(hint: datetime) -> datetime | None:
    try:
        return checks.moment("retry_after", hint)
    except BadOption:
        return None


def _traceback(error: BaseException) -> str | None:
    if isinstance(error, asyncio.CancelledError):
        return None
    try:
        return format_traceback(error)
    except Exception as broken:  # noqa: BLE001 - formatting calls the user's `__str__`
        return f"the traceback cannot be shown: {type(broken).__name__}"
