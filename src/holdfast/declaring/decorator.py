"""What `@app.task` applies to a function."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from holdfast.context import Context
from holdfast.declaring.declared import DeclaredTask

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
