"""The waits of one attempt for signals, where its handler runs.

A wait is a step. It looks first whether an earlier attempt has recorded it. Then it asks the worker
for a signal that is kept: the worker records the value of the signal as the result of the step. If
there is none, the handler is left, as by a sleep; it is called again when the signal has come or
the timeout is over, and gets here again. The store sees to it that a signal which comes meanwhile
is not missed.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

from holdfast.codec.results import Misfit, ResultType
from holdfast.codec.types import adapter_for, unsupported
from holdfast.errors import BadOption, BadSignal, HoldfastError, WaitTimedOut
from holdfast.job.requests import LeaveHandler, SignalTaken, TakeSignal, Wait, WaitOver
from holdfast.job.step import Step
from holdfast.steps.running import KEEPS_SLOT, LOOK_SECONDS, WITHIN, StepRunner

KEPT_TYPES = 1_000


class SignalRunner(StepRunner):
    """Runs the steps of one attempt, and its waits for signals."""

    __slots__ = ()

    async def signal(self, step: str, signal: str, kind: Any, timeout: float | None) -> Any:
        """The value of the signal, recorded under the name `step`. Unless the wait is short, the
        handler is left meanwhile."""
        values = _type_of(signal, kind)
        _require_between_steps(signal)
        found = await self._found(step)
        if found is not None and found.result_json is not None:
            return _decoded(values, signal, found.result_json)
        if found is not None and found.failed:
            raise WaitTimedOut(signal, timeout)
        text = await self._awaited(step, signal, self._time_left(found, timeout))
        if text is None:
            await self._time_out(step, signal, timeout)
        return _decoded(values, signal, text or "null")

    async def _awaited(self, step: str, signal: str, left: float | None) -> str | None:
        """The value as JSON, or None when the time is over. What came before that counts."""
        while (text := await self._taken(step, signal)) is None:
            if left is not None and left <= 0:
                return None
            if left is None or left >= KEEPS_SLOT:
                left = await self._leave_for(step, signal, left)
                continue
            began = time.monotonic()
            await self._way.pause(min(left, LOOK_SECONDS))
            left -= time.monotonic() - began
        return text

    async def _taken(self, step: str, signal: str) -> str | None:
        """A look counts as under way: nobody leaves the handler before what it finds is done."""
        self._running += 1
        try:
            answer = await self._ask(TakeSignal(step, signal))
        finally:
            self._end_one()
        match answer:
            case SignalTaken(value):
                return value
            case other:
                raise TypeError(f"a look for a signal was answered by {other!r}")

    def _time_left(self, found: Step | None, timeout: float | None) -> float | None:
        """An earlier attempt may have begun the wait."""
        if found is not None and found.awaits is not None and found.until is not None:
            return self._left_until(found.until)
        return timeout

    async def _leave_for(self, step: str, signal: str, left: float | None) -> float:
        """Leave the handler. Time that other steps take before that counts. Several waits of a
        handler leave it together: the worker is asked for each of them. Where nobody sleeps, the
        time is over at once: nobody could send anything."""
        took = await self._until_quiet()
        seconds = None if left is None else max(0.0, left - took)
        record = self._record(step, seconds=seconds, awaits=signal)
        answer = await self._way.ask(Wait(record))
        if isinstance(answer, LeaveHandler):
            self._leave()
        if not isinstance(answer, WaitOver):
            raise TypeError(f"a wait was answered by {answer!r}")
        return 0.0

    async def _time_out(self, step: str, signal: str, timeout: float | None) -> None:
        """Written down before the handler hears of it: a signal that comes later changes nothing
        that the handler does then."""
        error = WaitTimedOut(signal, timeout)
        record = self._record(step, kind=type(error).__name__, message=str(error))
        await self._keep(record, lazy=False)
        raise error


def _require_between_steps(signal: str) -> None:
    if (step := WITHIN.get(None)) is not None:
        raise HoldfastError(
            f"step {step!r} waits for signal {signal!r}: its result is not recorded yet, and it "
            "would be called again; wait between steps"
        )


def _decoded(values: ResultType, signal: str, text: str) -> Any:
    try:
        return values.decode(text)
    except Misfit as misfit:
        raise BadSignal(signal, str(misfit)) from misfit


def _type_of(signal: str, kind: Any) -> ResultType:
    try:
        return _cached(signal, kind)
    except TypeError:  # an annotation that cannot be a key, such as one with a list in it
        return _made(signal, kind)


def _made(signal: str, kind: Any) -> ResultType:
    adapter = adapter_for(kind)
    problem = None if adapter else unsupported(kind)
    if problem is not None:
        expected = f"one that JSON can carry ({problem})"
        raise BadOption(f"the type of signal {signal!r}", expected, kind)
    return ResultType(kind, adapter)


_cached = lru_cache(KEPT_TYPES)(_made)
