"""The waits of one attempt for signals, where its handler runs.

A wait for a signal is a step. It looks first whether an earlier attempt has recorded it. Then it
asks the worker for a signal that is kept: the worker records the value of the signal as the result
of the step. If there is none, the handler is left, as by a sleep; it is called again when the
signal has come or the timeout is over, and gets here again. The store sees to it that a signal
which comes meanwhile is not missed.

A wait for several signals has a step for each of them. As long as fewer have come than are needed,
none is taken, and the job is suspended for those that are missing: any of them wakes it, and it
looks again. So the store compares names, and only the code here counts.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, NoReturn

import msgspec

from holdfast.codec.results import Misfit, ResultType
from holdfast.codec.types import adapter_for, unsupported
from holdfast.errors import BadOption, BadSignal, HoldfastError, WaitTimedOut
from holdfast.job import checks
from holdfast.job.call import require_users_signal
from holdfast.job.requests import LeaveHandler, SignalsTaken, TakeSignals, Wait, WaitOver
from holdfast.job.signal import SignalGroup
from holdfast.job.step import Step
from holdfast.steps.running import KEEPS_SLOT, WITHIN, StepRunner
from holdfast.steps.ways import LOOK_SECONDS

KEPT_TYPES = 1_000


class Awaiting(msgspec.Struct, frozen=True):
    """What a handler waits for: how many of which signals, the step and the type of each, and how
    all that is called."""

    need: int
    steps: dict[str, str]
    types: Mapping[str, ResultType]
    said: str

    def decoded(self, texts: Mapping[str, str]) -> dict[str, Any]:
        return {name: _decoded(self.types[name], name, text) for name, text in texts.items()}

    def besides(self, come: Collection[str]) -> TakeSignals:
        """What is to be taken still."""
        steps = {name: step for name, step in self.steps.items() if name not in come}
        need = self.need - len(come)
        return TakeSignals(steps, need, need)


class SignalRunner(StepRunner):
    """Runs the steps of one attempt, and its waits for signals."""

    __slots__ = ()

    def awaiting(self, which: SignalGroup, kind: Any) -> Awaiting:
        """Name the steps of a wait. They have their order by the call, as those of functions."""
        checks.kind(
            "signals", which, SignalGroup, "a condition, such as any_of('paid', 'cancelled')"
        )
        types = {name: _type_of(name, _kind_of(name, kind)) for name in which.names}
        return Awaiting(which.need, {name: self.named(name) for name in types}, types, str(which))

    async def signal(self, awaiting: Awaiting, timeout: float | None) -> Any:
        """The value of the only signal."""
        [value] = (await self.signals(awaiting, timeout)).values()
        return value

    async def signals(self, awaiting: Awaiting, timeout: float | None) -> dict[str, Any]:
        """The values of as many signals as are needed, recorded under the names of their steps.
        Unless the wait is short, the handler is left meanwhile."""
        require_between_steps(awaiting.said)
        found = {name: await self._found(step) for name, step in awaiting.steps.items()}
        known = {name: step for name, step in found.items() if step is not None}
        texts = _recorded(known)
        if len(texts) < awaiting.need:
            if any(step.failed for step in known.values()):
                raise WaitTimedOut(awaiting.said, timeout)
            left = self._time_left(known.values(), timeout)
            texts |= await self._awaited(awaiting, texts, left, timeout)
        return awaiting.decoded(texts)

    async def _awaited(
        self,
        awaiting: Awaiting,
        come: Collection[str],
        left: float | None,
        timeout: float | None,
    ) -> dict[str, str]:
        """The values as JSON. What came before the time is over counts."""
        wanted = awaiting.besides(come)
        while not (taken := await self._taken(wanted)).values:
            missing = {name: step for name, step in wanted.steps.items() if name not in taken.kept}
            if left is not None and left <= 0:
                await self._time_out(awaiting, missing, timeout)
            if left is None or left >= KEEPS_SLOT:
                left = await self._leave_for(missing, left, _message(awaiting))
                continue
            began = time.monotonic()
            await self._way.pause(min(left, LOOK_SECONDS))
            left -= time.monotonic() - began
        return taken.values

    async def _taken(self, wanted: TakeSignals) -> SignalsTaken:
        """A look counts as under way: nobody leaves the handler before what it finds is done."""
        self._running += 1
        try:
            answer = await self._ask(wanted)
        finally:
            self._end_one()
        if not isinstance(answer, SignalsTaken):
            raise TypeError(f"a look for signals was answered by {answer!r}")
        return answer

    def _time_left(self, found: Iterable[Step], timeout: float | None) -> float | None:
        """An earlier attempt may have begun the wait."""
        ends = [one.until for one in found if one.awaits is not None and one.until is not None]
        return self._left_until(min(ends)) if ends else timeout

    async def _leave_for(
        self, missing: Mapping[str, str], left: float | None, message: str | None
    ) -> float:
        """Leave the handler. Time that other steps take before that counts. Several waits of a
        handler leave it together: the worker is asked for each of them. Where nobody sleeps, the
        time is over at once: nobody could send anything."""
        took = await self._until_quiet()
        seconds = None if left is None else max(0.0, left - took)
        said = {"seconds": seconds, "message": message}
        waits = [self._record(step, awaits=name, **said) for name, step in missing.items()]
        answers = [await self._way.ask(Wait(one)) for one in waits]
        if isinstance(answers[-1], LeaveHandler):
            self._leave()
        if not isinstance(answers[-1], WaitOver):
            raise TypeError(f"a wait was answered by {answers[-1]!r}")
        return 0.0

    async def _time_out(
        self, awaiting: Awaiting, missing: Mapping[str, str], timeout: float | None
    ) -> NoReturn:
        """Written down before the handler hears of it: a signal that comes later changes nothing
        that the handler does then."""
        error = WaitTimedOut(awaiting.said, timeout)
        step = next(iter(missing.values()))
        record = self._record(step, kind=type(error).__name__, message=str(error))
        await self._keep(record, lazy=False)
        raise error


def _recorded(found: Mapping[str, Step]) -> dict[str, str]:
    """What earlier attempts have taken, in the order in which it came."""
    in_order = sorted(found.items(), key=lambda item: item[1].n)
    return {name: step.result_json for name, step in in_order if step.result_json is not None}


def _message(awaiting: Awaiting) -> str | None:
    """What is said of the wait for several signals."""
    return awaiting.said if len(awaiting.steps) > 1 else None


def require_between_steps(awaited: str) -> None:
    """Nobody may wait inside a step."""
    if (step := WITHIN.get(None)) is not None:
        raise HoldfastError(
            f"step {step!r} waits for {awaited}: its result is not recorded yet, and it "
            "would be called again; wait between steps"
        )


def _decoded(values: ResultType, signal: str, text: str) -> Any:
    try:
        return values.decode(text)
    except Misfit as misfit:
        raise BadSignal(signal, str(misfit)) from misfit


def _kind_of(signal: str, kind: Any) -> Any:
    """The type of one signal, where each has its own."""
    if not isinstance(kind, Mapping):
        return kind
    if signal not in kind:
        raise BadOption("the types of signals", f"one for signal {signal!r}", ", ".join(kind))
    return kind[signal]


def _type_of(signal: str, kind: Any) -> ResultType:
    require_users_signal(signal)
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
