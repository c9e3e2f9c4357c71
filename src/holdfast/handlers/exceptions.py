"""What a handler's exception means for its attempt."""

from __future__ import annotations

import asyncio
import math

from holdfast.errors import HoldfastError
from holdfast.handlers.tracebacks import format_traceback
from holdfast.job import checks
from holdfast.job.ends import (
    End,
    Fail,
    Raised,
    Snooze,
    Snoozed,
    Suspend,
    Throttled,
    WasSuspended,
    WasThrottled,
)
from holdfast.job.text import MESSAGE_LIMIT, clean, describe


def end_of(error: BaseException) -> End:
    """The end that a raised exception stands for. An exception that is no wish of the handler is
    `Raised`, also SystemExit: a handler may end its attempt, never its worker."""
    match error:
        case Fail():
            return raised(error, final=True)
        case Snooze(seconds=seconds):
            return Snoozed(seconds)
        case Throttled(retry_after=seconds):
            return WasThrottled(seconds, clean(describe(error), MESSAGE_LIMIT))
        case Suspend(seconds=seconds):
            return WasSuspended(seconds)
        case _:
            return raised(error)


def raised(error: BaseException, *, final: bool = False) -> Raised:
    return Raised(
        type(error).__name__, describe(error), _traceback(error), _hint(error), final=final
    )


def refused(error: HoldfastError) -> Raised:
    """The end of an attempt that cannot get better by another try: its arguments do not fit, its
    result cannot be kept, or its function cannot be imported."""
    return Raised(type(error).__name__, str(error), final=True)


def _hint(error: BaseException) -> float | None:
    try:
        hint = getattr(error, "retry_after", None)
    except Exception:  # noqa: BLE001 - a property of the user's own class; no hint is no harm
        return None
    seconds = checks.number(hint)
    return seconds if math.isfinite(seconds) else None


def _traceback(error: BaseException) -> str | None:
    if isinstance(error, asyncio.CancelledError):
        return None
    try:
        return format_traceback(error)
    except Exception as broken:  # noqa: BLE001 - formatting calls the user's `__str__`
        return f"the traceback cannot be shown: {type(broken).__name__}"
