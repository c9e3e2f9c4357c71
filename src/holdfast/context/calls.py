"""What a handler writes to call tasks and flows: `await ctx.call(render, 7)`.

Nothing of the runner is imported before the first call: most handlers make none.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from holdfast.context.lasting import LongLived
from holdfast.job.loopless import run_without_loop

if TYPE_CHECKING:
    from holdfast.context.context import Context
    from holdfast.context.growth import NodeTask
    from holdfast.steps.calls import Called, LoserWord, MakesCalls

P = ParamSpec("P")
T = TypeVar("T")
_makers: list[Callable[[Context], MakesCalls]] = []
_writers: list[Callable[[object], str]] = []


def on_calls(make: Callable[[Context], MakesCalls]) -> None:
    """Let this make calls. A context is below all that builds flows, so it is told how."""
    _makers[:] = [make]


def on_undo(write: Callable[[object], str]) -> None:
    """Let this write down which task undoes a step."""
    _writers[:] = [write]


def undo_text(task: object) -> str:
    """How a step says which task undoes it."""
    [write] = _writers
    return write(task)


class CallsTasks(LongLived):
    """The part of a context that calls tasks and flows.

    A call is a step: it is recorded, and no later attempt makes it again. What is called lies
    beside the job that calls, is cancelled with it, and is removed with it. The handler is left
    meanwhile by a `BaseException` and called again at the end; no attempt is spent, and its slot is
    free. Raises `CallFailed` if what was called ended badly."""

    __slots__ = ()

    def call(
        self, task: NodeTask[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]:
        """Run this task as a job of its own, and give its result."""
        return self._called(self._calls.task(task, args, kwargs))

    def call_sync(self, task: NodeTask[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """`call` for plain functions, in a thread or a process."""
        call: Called[T] = self._calls.task(task, args, kwargs)
        return self._called_sync(call)

    @overload
    def call_many(
        self, task: NodeTask[..., T], calls: Iterable[object], *, losers: LoserWord = ...
    ) -> Coroutine[Any, Any, list[T]]: ...
    @overload
    def call_many(
        self, task: NodeTask[..., T], calls: Iterable[object], *, need: int, losers: LoserWord = ...
    ) -> Coroutine[Any, Any, list[T | None]]: ...
    def call_many(
        self,
        task: NodeTask[..., Any],
        calls: Iterable[object],
        *,
        need: int | None = None,
        losers: LoserWord = "let_run",
    ) -> Coroutine[Any, Any, list[Any]]:
        """Run this task once for each element of `calls`, a tuple or a mapping of its arguments,
        and give the results in their order. With `need` it goes on as soon as so many have
        succeeded; the others are None. `losers` says what becomes of those that
        still run then: they are let run, or cancelled."""
        return self._called(self._calls.tasks(task, calls, need, losers))

    @overload
    def call_many_sync(
        self, task: NodeTask[..., T], calls: Iterable[object], *, losers: LoserWord = ...
    ) -> list[T]: ...
    @overload
    def call_many_sync(
        self, task: NodeTask[..., T], calls: Iterable[object], *, need: int, losers: LoserWord = ...
    ) -> list[T | None]: ...
    def call_many_sync(
        self,
        task: NodeTask[..., Any],
        calls: Iterable[object],
        *,
        need: int | None = None,
        losers: LoserWord = "let_run",
    ) -> list[Any]:
        """`call_many` for plain functions, in a thread or a process."""
        return self._called_sync(self._calls.tasks(task, calls, need, losers))

    def run_flow(self, flow: Any) -> Coroutine[Any, Any, Any]:
        """Run a flow that was built by `app.flow(…)` and not started; give its result."""
        return self._called(self._calls.flow(flow))

    def run_flow_sync(self, flow: Any) -> Any:
        """`run_flow` for plain functions, in a thread or a process."""
        return self._called_sync(self._calls.flow(flow))

    # ------------------------------------------------------------------------------------------

    @property
    def _calls(self) -> MakesCalls:
        [make] = _makers
        return make(cast("Context", self))  # nothing else has this base

    def _called(self, call: Called[T]) -> Coroutine[Any, Any, T]:
        runner = self._steps(on_loop=True)
        return runner.run_call(runner.named(call.name), call)

    def _called_sync(self, call: Called[T]) -> T:
        runner = self._steps(on_loop=False)
        return run_without_loop(runner.run_call(runner.named(call.name), call))
