"""A task whose function is in this program."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, cast

from holdfast.enqueue.options import JobOptions
from holdfast.handlers.registry import Handler
from holdfast.task import Task, TaskOwner

P = ParamSpec("P")
R = TypeVar("R", covariant=True)
C = ParamSpec("C")
V = TypeVar("V", covariant=True)


class DeclaredTask(Task[P, R], Generic[P, R, C, V]):
    """A task with its function. `P` and `R` are the arguments of `enqueue` and the result of the
    job. `C` and `V` are the function's own: `C` still has the context, and a call of a coroutine
    function answers with a coroutine."""

    def __init__(self, owner: TaskOwner, handler: Handler, options: JobOptions) -> None:
        super().__init__(owner, handler.name, handler.signature, options)
        self._handler = handler
        update_wrapper(cast("Callable[..., Any]", self), handler.function)

    @property
    def also(self) -> tuple[str, ...]:
        return self._handler.also

    @property
    def handler(self) -> Handler:
        return self._handler

    def __call__(self, *args: C.args, **kwargs: C.kwargs) -> V:
        """Run the function here and now; nothing is enqueued."""
        return cast("V", self.plainly(*args, **kwargs))

    @property
    def plainly(self) -> Callable[..., Any]:
        """The function as it was written. A worker may call another that is around it."""
        function = self._handler.function
        return cast("Callable[..., Any]", getattr(function, "__holdfast_plainly__", function))

    def bound_to(self, owner: TaskOwner) -> DeclaredTask[P, R, C, V]:
        """The same task, whose jobs are enqueued by the app of `owner`."""
        return self if owner is self._owner else DeclaredTask(owner, self._handler, self.options)

    def _with(self, options: JobOptions) -> DeclaredTask[P, R, C, V]:
        return DeclaredTask(self._owner, self._handler, options)
