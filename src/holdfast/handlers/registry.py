"""Which tasks this program knows. A job names its task; only this registry resolves it.

Nothing in a payload is ever imported or looked up by path. A worker does not claim jobs of tasks
that its program has not registered.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property, partial
from types import CodeType
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.codec.signature import Signature
from holdfast.context import Context
from holdfast.errors import BadTask, UnknownTask

if TYPE_CHECKING:
    from holdfast.handlers.pools import ChildPool
    from holdfast.handlers.resources import Recipe
    from holdfast.handlers.surroundings import Surroundings
    from holdfast.job.redacted_json import Path
    from holdfast.job.redaction import Rules


class Mode(StrEnum):
    """Where a handler runs."""

    LOOP = "loop"
    THREAD = "thread"
    PROCESS = "process"


LOOP, PROCESS = Mode.LOOP, Mode.PROCESS
"""As plain names, for what is asked of every attempt."""


class Handler(msgspec.Struct, frozen=True, dict=True):
    """One registered function with its compiled signature. `also` has the names that its task had
    before; jobs of these names are run too. `redact` are paths that are never shown. A worker may
    put `surroundings` around the function: hooks, and resources that are made for each attempt.
    `pool` is whose children do the work, if any do."""

    name: str
    function: Callable[..., Any]
    signature: Signature
    mode: Mode
    also: tuple[str, ...] = ()
    redact: tuple[Path, ...] = ()
    surroundings: Surroundings | None = None
    pool: ChildPool | None = None

    @classmethod
    def of(
        cls,
        name: str,
        function: Callable[..., Any],
        *,
        process: bool = False,
        pool: ChildPool | None = None,
        keep_result: bool = True,
        also: tuple[str, ...] = (),
        redact: tuple[str, ...] = (),
    ) -> Handler:
        if pool is not None:
            function = _in_pool(name, function, pool, process)
        is_async = inspect.iscoroutinefunction(function)
        if process and is_async:
            raise BadTask(name, "process=True needs a plain function, not 'async def'")
        mode = Mode.PROCESS if process else Mode.LOOP if is_async else Mode.THREAD
        signature = Signature.of(function, task=name, context_type=Context, keep_result=keep_result)
        handler = cls(name, function, signature, mode, also, _paths(signature, redact), pool=pool)
        if signature.resources:
            if process:
                problem = "a child process cannot use the resources of its worker"
                raise BadTask(name, f"process=True: {problem}: make them inside the function")
            handler.recipes()  # refuses resources that can never be made
        return handler

    def recipes(self) -> dict[str, Recipe]:
        """How to make the resources that the function takes."""
        from holdfast.handlers.resources import recipes

        return recipes(self.name, self.signature.resources)

    @cached_property
    def rules(self) -> Rules:
        """What is hidden of the jobs of the task wherever they are shown."""
        from holdfast.codec.secrets import rules_of

        return rules_of(self.redact, self.signature.parameters.parameters, self.signature.returns)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.also)

    @property
    def place(self) -> str:
        return place_of(self.function)


def _in_pool(
    name: str, function: Callable[..., Any], pool: ChildPool, process: bool
) -> Callable[..., Any]:
    from holdfast.handlers.pools import function_in  # few tasks have a pool

    if process:
        raise BadTask(name, "process=True and pool=… exclude each other: leave one of them out")
    return function_in(pool, function, name)


def _paths(signature: Signature, redact: tuple[str, ...]) -> tuple[Path, ...]:
    if not redact:
        return ()
    from holdfast.codec.secrets import declared_paths  # few tasks declare any

    return declared_paths(signature.task, redact, signature.parameters.parameters)


def place_of(function: Callable[..., Any]) -> str:
    """Where a function is written, for people: `file:line`."""
    target: Any = function.func if isinstance(function, partial) else function
    code = getattr(target, "__code__", None) or getattr(type(target).__call__, "__code__", None)
    if isinstance(code, CodeType):
        return f"{code.co_filename}:{code.co_firstlineno}"
    return str(getattr(target, "__module__", "an unknown place"))


class Registry(Mapping[str, Handler]):
    """Handlers by task name. A handler stands under each of its names, the old ones too."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    @property
    def handlers(self) -> list[Handler]:
        """Every handler once."""
        return [handler for name, handler in self._handlers.items() if name == handler.name]

    def require_free(self, handler: Handler) -> None:
        """Refuse a handler if another task has one of its names."""
        for name in handler.names:
            other = self._handlers.get(name)
            if other is not None and not _is_again(other, handler):
                raise BadTask(handler.name, _taken(name, handler, other))

    def add(self, handler: Handler) -> None:
        self.require_free(handler)
        self._handlers.update(dict.fromkeys(handler.names, handler))

    def beside(self, handler: Handler) -> Registry:
        """The same handlers and one more, which only the caller knows."""
        self.require_free(handler)
        known = Registry()
        known._handlers = self._handlers | dict.fromkeys(handler.names, handler)
        return known

    def __getitem__(self, name: str) -> Handler:
        try:
            return self._handlers[name]
        except KeyError:
            raise UnknownTask(name, list(self._handlers)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._handlers

    def __iter__(self) -> Iterator[str]:
        return iter(self._handlers)

    def __len__(self) -> int:
        return len(self._handlers)


def _is_again(known: Handler, new: Handler) -> bool:
    """Whether this is one declaration made again. A file is loaded twice if it is run as a script
    and imported too. A person runs a cell of a notebook again after changing it."""
    if known.name != new.name:
        return False
    if known is new:
        return True
    first, second = (getattr(one.function, "__globals__", None) for one in (known, new))
    if known.place == new.place:
        return first is not second
    return first is second and first is vars(sys.modules["__main__"]) and "__file__" not in first


def _taken(name: str, handler: Handler, other: Handler) -> str:
    where = f"at {other.place}"
    if name in handler.also:
        return f"also={name!r} is a name of the task {other.name!r}, which is declared {where}"
    if name in other.also:
        return f"this is among the also=… of the task {other.name!r}, which is declared {where}"
    return f"a task of this name is already declared {where}: give one of the two name=…"
