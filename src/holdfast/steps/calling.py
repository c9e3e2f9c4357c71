"""What a handler writes: `ctx.step("pay", charge, order)`, and the same with options."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypedDict, TypeVar, Unpack, overload

import msgspec

from holdfast.context.calls import undo_text
from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.loopless import run_without_loop
from holdfast.job.retry import Retry

if TYPE_CHECKING:
    from holdfast.context.growth import NodeTask
    from holdfast.steps.running import StepRunner

P = ParamSpec("P")
T = TypeVar("T")

LONGEST_VERSION = 100


class StepOptions(TypedDict, total=False):
    """What `using` takes.

    `retry` says how often the function is tried before the step has failed; None, the default, is
    once. `timeout` is how many seconds one try may take, of a coroutine function. A `lazy` step is
    written down with the next step or with the end of the attempt. `version` tells results that no
    longer fit the function's annotation from those that must: see the guide. `undo` is a task that
    is given the result of the step if the job ends badly for good.
    """

    retry: Retry | None
    timeout: float | timedelta | None
    lazy: bool
    version: str | None
    undo: NodeTask[..., Any] | None


class Chosen(msgspec.Struct, frozen=True):
    """Options of a step, checked."""

    retry: Retry | None = None
    timeout: float | None = None
    lazy: bool = False
    version: str | None = None
    undo: str | None = None

    def using(self, options: StepOptions) -> Chosen:
        return msgspec.structs.replace(self, **{name: _check(name, options) for name in options})


PLAINLY = Chosen()


def _check(name: str, options: StepOptions) -> object:
    value = options.get(name)
    match name:
        case "lazy":
            return checks.flag("lazy", value)
        case "retry" | "timeout" | "version" | "undo" if value is None:
            return None
        case "retry":
            checks.kind("retry", value, Retry, "a Retry, or None")
            return value
        case "timeout":
            return checks.wait("timeout", value, zero=False)
        case "version":
            return checks.text("version", value, LONGEST_VERSION)
        case "undo":
            return undo_text(value)
    raise BadOption("step", "the options retry, timeout, lazy, version and undo", name)


class Stepper:
    """`ctx.step`: calls functions whose results are recorded."""

    __slots__ = ("_chosen", "_runner")

    def __init__(self, runner: StepRunner, chosen: Chosen = PLAINLY) -> None:
        self._runner = runner
        self._chosen = chosen

    def using(self, **options: Unpack[StepOptions]) -> Stepper:
        """The same with some options replaced: `ctx.step.using(lazy=True)("total", add_up)`."""
        return Stepper(self._runner, self._chosen.using(options))

    @overload
    def __call__(
        self,
        name: str,
        function: Callable[P, Awaitable[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    def __call__(
        self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, Any]:
        """Call the function, unless an earlier attempt has recorded this step: then give what it
        returned there. A plain function is called where the handler runs: on the event loop."""
        named = self._runner.named(name)
        return self._runner.call(named, _bound(named, function, args, kwargs), self._chosen)


class SyncStepper:
    """`ctx.step_sync`: the same for plain functions, in a thread or a process."""

    __slots__ = ("_chosen", "_runner")

    def __init__(self, runner: StepRunner, chosen: Chosen = PLAINLY) -> None:
        self._runner = runner
        self._chosen = chosen

    def using(self, **options: Unpack[StepOptions]) -> SyncStepper:
        """The same with some options replaced. A plain function cannot be stopped, so `timeout` is
        refused."""
        chosen = self._chosen.using(options)
        if chosen.timeout is not None:
            expected = "no timeout: a plain function cannot be stopped"
            raise BadOption("the timeout of step_sync", expected, chosen.timeout)
        return SyncStepper(self._runner, chosen)

    def __call__(
        self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call the function, unless an earlier attempt has recorded this step: then give what it
        returned there."""
        if inspect.iscoroutinefunction(function):
            expected = "a plain function: await ctx.step(…) in a coroutine instead"
            raise BadOption("the function of step_sync", expected, function)
        named = self._runner.named(name)
        bound = _bound(named, function, args, kwargs)
        result: T = run_without_loop(self._runner.call(named, bound, self._chosen))
        return result


def _bound(
    name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[[], Any]:
    """The call of this function. Often it was called already: then its coroutine comes here."""
    try:
        return partial(function, *args, **kwargs)
    except TypeError:
        if inspect.iscoroutine(function):
            function.close()
        expected = f"a function and then its arguments: ctx.step({name!r}, charge, order)"
        raise BadOption(f"what step {name!r} calls", expected, function) from None
