"""What `@app.task` applies to a function."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from holdfast.context import Context
from holdfast.declaring.declared import DeclaredTask

if TYPE_CHECKING:
    from holdfast.declaring.flows import Flow

P = ParamSpec("P")
R = TypeVar("R")

Running = Coroutine[Any, Any, R]
Declare = Callable[[Callable[..., Any]], DeclaredTask[..., Any, ..., Any]]


class TaskDecorator:
    """What `@app.task(...)` answers with: it makes a function a task. Its overloads give the task
    the parameter and result types of the function."""

    def __init__(self, declare: Declare) -> None:
        self._declare = declare

    @overload
    def __call__(
        self, fn: Callable[Concatenate[Context, P], Running[R]]
    ) -> DeclaredTask[P, R, Concatenate[Context, P], Running[R]]: ...
    @overload
    def __call__(self, fn: Callable[P, Running[R]]) -> DeclaredTask[P, R, P, Running[R]]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[Context, P], R]
    ) -> DeclaredTask[P, R, Concatenate[Context, P], R]: ...
    @overload
    def __call__(self, fn: Callable[P, R]) -> DeclaredTask[P, R, P, R]: ...
    def __call__(self, fn: Callable[..., Any]) -> DeclaredTask[..., Any, ..., Any]:
        return self._declare(fn)


class FlowTaskDecorator:
    """What `@app.flow_task(...)` answers with. The function returns a flow; the result of the job
    is that of the flow, of which the types say nothing."""

    def __init__(self, declare: Declare) -> None:
        self._declare = declare

    @overload
    def __call__(
        self, fn: Callable[Concatenate[Context, P], Running[Flow]]
    ) -> DeclaredTask[P, Any, Concatenate[Context, P], Running[Flow]]: ...
    @overload
    def __call__(
        self, fn: Callable[P, Running[Flow]]
    ) -> DeclaredTask[P, Any, P, Running[Flow]]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[Context, P], Flow]
    ) -> DeclaredTask[P, Any, Concatenate[Context, P], Flow]: ...
    @overload
    def __call__(self, fn: Callable[P, Flow]) -> DeclaredTask[P, Any, P, Flow]: ...
    def __call__(self, fn: Callable[..., Any]) -> DeclaredTask[..., Any, ..., Any]:
        return self._declare(fn)
