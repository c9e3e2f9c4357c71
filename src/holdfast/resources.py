"""What a worker fills in beside the arguments of a call: clients, pools, sessions.

    async def fetch(url: str, client: Client = Shared(http), db: Session = Depends(session)): ...

`Shared(http)` is entered once a worker, `Depends(session)` once an attempt. Both are default
values, so a type checker knows that `enqueue` needs neither. Until a worker fills it in, the
default is a `Resource`: a mark that says which function makes the value. This module only knows the
marks; what they stand for is made by `handlers/resources.py`, which no program imports that uses
none of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, NoReturn, TypeVar, cast, overload

from holdfast.errors import BadOption, NotFilledIn

R = TypeVar("R")

Makes = Callable[..., Any]
"""A function that makes a resource."""


class Resource:
    """The mark of a parameter that a worker fills in. Whoever uses the mark itself, because the
    function was called plainly, is told what to do."""

    def __init__(self, function: Makes, *, shared: bool) -> None:
        word = "Shared" if shared else "Depends"
        if not callable(function):
            raise BadOption(
                f"the argument of {word}", "a function that makes the resource", function
            )
        self.function = function
        self.shared = shared
        self.shown = f"{word}({getattr(function, '__qualname__', type(function).__qualname__)})"

    def __repr__(self) -> str:
        return self.shown

    def _refuse(self, *args: object) -> NoReturn:
        raise NotFilledIn(self.shown)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # asked by Python and its tools, which expect a plain answer
            raise AttributeError(name)
        raise NotFilledIn(self.shown)

    __call__ = __getitem__ = __iter__ = __aiter__ = __await__ = _refuse
    __enter__ = __aenter__ = __exit__ = __aexit__ = _refuse


# The order of the overloads matters: what `@asynccontextmanager` makes is asked for first.


@overload
def Shared(function: Callable[..., AbstractAsyncContextManager[R]]) -> R: ...
@overload
def Shared(function: Callable[..., AbstractContextManager[R]]) -> R: ...
@overload
def Shared(function: Callable[..., Awaitable[R]]) -> R: ...
@overload
def Shared(function: Callable[..., AsyncIterator[R]]) -> R: ...
@overload
def Shared(function: Callable[..., Iterator[R]]) -> R: ...
@overload
def Shared(function: Callable[..., R]) -> R: ...
def Shared(function: Makes) -> Any:  # noqa: N802 - it stands where a value of a type is written
    """Once a worker: entered before the first claim, left after the last handler.

    >>> def settings() -> dict[str, int]:
    ...     return {"retries": 3}
    >>> Shared(settings)
    Shared(settings)
    """
    return cast("Any", Resource(function, shared=True))


@overload
def Depends(function: Callable[..., AbstractAsyncContextManager[R]]) -> R: ...
@overload
def Depends(function: Callable[..., AbstractContextManager[R]]) -> R: ...
@overload
def Depends(function: Callable[..., Awaitable[R]]) -> R: ...
@overload
def Depends(function: Callable[..., AsyncIterator[R]]) -> R: ...
@overload
def Depends(function: Callable[..., Iterator[R]]) -> R: ...
@overload
def Depends(function: Callable[..., R]) -> R: ...
def Depends(function: Makes) -> Any:  # noqa: N802 - it stands where a value of a type is written
    """Once an attempt: entered before the handler, left before the attempt's end is decided. All
    parameters that name the same function share one value.

    >>> def session() -> str:
    ...     return "a session"
    >>> Depends(session)
    Depends(session)
    """
    return cast("Any", Resource(function, shared=False))
