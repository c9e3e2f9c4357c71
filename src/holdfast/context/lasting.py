"""What a handler may do that outlives its process: steps, sleeps, waits for signals.

The parts that do it are imported when a handler first asks for one: most handlers never do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from holdfast.errors import HoldfastError
from holdfast.job import checks
from holdfast.job.loopless import run_without_loop
from holdfast.job.record import Claimed
from holdfast.job.signal import SignalGroup

if TYPE_CHECKING:
    from holdfast.context.context import Context
    from holdfast.steps.approvals import Invitation
    from holdfast.steps.calling import Stepper, SyncStepper
    from holdfast.steps.calls import CallRunner

V = TypeVar("V")

AWAITED = (
    "a plain function cannot await: write ctx.step_sync(…), ctx.sleep_sync(…), ctx.signal_sync(…), "
    "ctx.call_sync(…) and so on, or let the handler be a coroutine function (async def)"
)


class LongLived:
    """The part of a `Context` that remembers."""

    __slots__ = ("_claimed", "_runner", "_step", "_step_sync")

    _claimed: Claimed
    _runner: CallRunner | None
    _step: Stepper | None
    _step_sync: SyncStepper | None

    @property
    def step(self) -> Stepper:
        """Call functions whose results are recorded: `await ctx.step("pay", charge, order)`. A
        later attempt of this job gets the recorded result and does not call the function again.

        `await ctx.step.using(retry=…, timeout=…, lazy=…, version=…)("pay", charge, order)` has
        options. Raises `StepFailed` if the function raised, and `AttemptLost` when the attempt is
        no longer this worker's own."""
        if self._step is None:
            from holdfast.steps.calling import Stepper  # only handlers with steps need it

            self._step = Stepper(self._steps(on_loop=True))
        return self._step

    @property
    def step_sync(self) -> SyncStepper:
        """`step` for plain functions, in a thread or a process."""
        if self._step_sync is None:
            from holdfast.steps.calling import SyncStepper  # only handlers with steps need it

            self._step_sync = SyncStepper(self._steps(on_loop=False))
        return self._step_sync

    def sleep(
        self,
        name: str,
        seconds: float | timedelta = 0.0,
        *,
        minutes: float = 0.0,
        hours: float = 0.0,
        days: float = 0.0,
    ) -> Coroutine[Any, Any, None]:
        """Sleep without a slot: `await ctx.sleep("cooling off", days=3)`.

        The handler is left here by a `BaseException`, and called again when the time is over; its
        steps are recorded, and so is this sleep, so that it comes here again and goes on. No
        attempt is spent. A sleep of less than a second stays where it is."""
        runner = self._steps(on_loop=True)
        return runner.sleep(runner.named(name), _duration(seconds, minutes, hours, days))

    def sleep_sync(
        self,
        name: str,
        seconds: float | timedelta = 0.0,
        *,
        minutes: float = 0.0,
        hours: float = 0.0,
        days: float = 0.0,
    ) -> None:
        """`sleep` for plain functions, in a thread or a process."""
        runner = self._steps(on_loop=False)
        run_without_loop(runner.sleep(runner.named(name), _duration(seconds, minutes, hours, days)))

    @overload
    def signal(
        self, name: str, kind: type[V], *, timeout: float | timedelta | None = None
    ) -> Coroutine[Any, Any, V]: ...
    @overload
    def signal(
        self, name: str, kind: Any = Any, *, timeout: float | timedelta | None = None
    ) -> Coroutine[Any, Any, Any]: ...
    def signal(
        self, name: str, kind: Any = Any, *, timeout: float | timedelta | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Wait for a signal without a slot: `await ctx.signal("paid", Payment, timeout=…)`. Gives
        the value that was sent, as the type says.

        A signal that came before is taken at once. Otherwise the handler is left here by a
        `BaseException`, and called again when the signal has come; no attempt is spent. The value
        is recorded, so that a later attempt gets it again. Raises `WaitTimedOut` if no signal comes
        within the timeout, and `BadSignal` if its value does not fit the type."""
        runner = self._steps(on_loop=True)
        return runner.signal(runner.awaiting(SignalGroup(1, (name,)), kind), _timeout(timeout))

    @overload
    def signal_sync(
        self, name: str, kind: type[V], *, timeout: float | timedelta | None = None
    ) -> V: ...
    @overload
    def signal_sync(
        self, name: str, kind: Any = Any, *, timeout: float | timedelta | None = None
    ) -> Any: ...
    def signal_sync(
        self, name: str, kind: Any = Any, *, timeout: float | timedelta | None = None
    ) -> Any:
        """`signal` for plain functions, in a thread or a process."""
        runner = self._steps(on_loop=False)
        awaiting = runner.awaiting(SignalGroup(1, (name,)), kind)
        return run_without_loop(runner.signal(awaiting, _timeout(timeout)))

    @overload
    def signals(
        self, which: SignalGroup, kind: type[V], *, timeout: float | timedelta | None = None
    ) -> Coroutine[Any, Any, dict[str, V]]: ...
    @overload
    def signals(
        self, which: SignalGroup, kind: Any = Any, *, timeout: float | timedelta | None = None
    ) -> Coroutine[Any, Any, dict[str, Any]]: ...
    def signals(
        self, which: SignalGroup, kind: Any = Any, *, timeout: float | timedelta | None = None
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        """Wait for several signals: `await ctx.signals(any_of("paid", "cancelled"))`, `all_of(…)`
        or `quorum(2, …)`. Gives the values of as many as are needed, by name, in the order in which
        they came. `kind` is the type of all values, or a mapping with the type of each.

        Nothing is taken before as many have come as are needed. When the timeout is over before
        that, `WaitTimedOut` is raised, and what has come is kept. Otherwise as `signal`."""
        runner = self._steps(on_loop=True)
        return runner.signals(runner.awaiting(which, kind), _timeout(timeout))

    @overload
    def signals_sync(
        self, which: SignalGroup, kind: type[V], *, timeout: float | timedelta | None = None
    ) -> dict[str, V]: ...
    @overload
    def signals_sync(
        self, which: SignalGroup, kind: Any = Any, *, timeout: float | timedelta | None = None
    ) -> dict[str, Any]: ...
    def signals_sync(
        self, which: SignalGroup, kind: Any = Any, *, timeout: float | timedelta | None = None
    ) -> dict[str, Any]:
        """`signals` for plain functions, in a thread or a process."""
        runner = self._steps(on_loop=False)
        return run_without_loop(runner.signals(runner.awaiting(which, kind), _timeout(timeout)))

    def invite(self, name: str, *, of: Iterable[str]) -> Invitation:
        """Ask people: `asked = ctx.invite("leads", of=["ann", "bob", "cyd"])` has a token for each
        of them, and `await asked.quorum(2, timeout=…)` waits for their votes without a slot. They
        are given by `client.answer(token, …)`. Raises `BadOption` if the program has no
        `signing_keys`."""
        on_loop = asyncio._get_running_loop() is not None
        return self._steps(on_loop=on_loop).invite(name, of)

    def _steps(self, *, on_loop: bool) -> CallRunner:
        """A handler has one runner: it is a coroutine, or a plain function. A plain function that
        calls what has to be awaited would get a coroutine which nobody runs, and go on."""
        if on_loop and not self._has_loop:
            raise HoldfastError(AWAITED)
        if self._runner is None:
            from holdfast.steps.calls import CallRunner
            from holdfast.steps.ways import InThread, OnLoop

            context = cast("Context", self)  # nothing else has this base
            way = OnLoop(context) if on_loop else InThread(context)
            self._runner = CallRunner(self._claimed, way)
        return self._runner

    @property
    def _has_loop(self) -> bool:
        if self._runner is None:
            return asyncio._get_running_loop() is not None
        return self._runner.has_loop


def _duration(seconds: float | timedelta, minutes: float, hours: float, days: float) -> float:
    found = checks.wait("seconds", seconds)
    for name, value, size in (
        ("minutes", minutes, 60),
        ("hours", hours, 3_600),
        ("days", days, 86_400),
    ):
        if value:
            found += size * checks.seconds(name, value)
    return checks.seconds("the time to sleep", found)


def _timeout(timeout: float | timedelta | None) -> float | None:
    return None if timeout is None else checks.wait("timeout", timeout)
