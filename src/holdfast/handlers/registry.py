"""Which tasks this program knows. A job names its task; only this registry resolves it.

Nothing in a payload is ever imported or looked up by path. A worker does not claim jobs of tasks
that its program has not registered.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from holdfast.codec.signature import Signature
from holdfast.context import Context
from holdfast.errors import BadTask, UnknownTask


class Mode(StrEnum):
    """Where a handler runs."""

    LOOP = "loop"
    THREAD = "thread"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class Handler:
    """One registered function with its compiled signature."""

    name: str
    function: Callable[..., Any]
    signature: Signature
    mode: Mode

    @classmethod
    def of(
        cls,
        name: str,
        function: Callable[..., Any],
        *,
        process: bool = False,
        keep_result: bool = True,
    ) -> Handler:
        is_async = inspect.iscoroutinefunction(function)
        if process and is_async:
            raise BadTask(name, "process=True needs a plain function, not 'async def'")
        mode = Mode.PROCESS if process else Mode.LOOP if is_async else Mode.THREAD
        signature = Signature.of(function, task=name, context_type=Context, keep_result=keep_result)
        return cls(name, function, signature, mode)


class Registry(Mapping[str, Handler]):
    """Handlers by task name."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def add(self, handler: Handler) -> None:
        if handler.name in self._handlers:
            raise BadTask(handler.name, "a task of this name is already registered")
        self._handlers[handler.name] = handler

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
