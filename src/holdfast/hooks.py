"""What an app puts around its attempts and its enqueues.

    @app.around_attempt
    async def traced(ctx: Context, run: Callable[[], Awaitable[Any]]) -> Any:
        with tracer.start_as_current_span(ctx.job.task):
            return await run()

Hooks of one kind lie around each other in the order of their registration, the first one outermost.
A worker takes the hooks that are there when it starts. A worker whose app has none does not ask for
them again.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from holdfast.context import Context
from holdfast.errors import BadOption

AroundAttempt = Callable[[Context, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Called on the worker's loop with the context and what runs the rest; answers with the result."""
InThread = Callable[[Context, Callable[[], Any]], Any]
"""The same inside the thread, or the child process, of a plain function."""
OnEnqueue = Callable[[str], Mapping[str, str]]
"""Called with the name of a task; answers with headers for the job that is being enqueued."""

A = TypeVar("A", bound=AroundAttempt)
T = TypeVar("T", bound=InThread)
E = TypeVar("E", bound=OnEnqueue)
F = TypeVar("F")


class Hooks:
    """The hooks of one app, in the order of their registration."""

    def __init__(self) -> None:
        self.around_attempt: tuple[AroundAttempt, ...] = ()
        self.in_thread: tuple[InThread, ...] = ()
        self.on_enqueue: tuple[OnEnqueue, ...] = ()

    def add_around_attempt(self, hook: A) -> A:
        if not _is_async(hook):
            raise BadOption("a hook around attempts", "an 'async def' function", hook)
        self.around_attempt += (hook,)
        return hook

    def add_in_thread(self, hook: T) -> T:
        self.in_thread += (_plain("a hook in threads", hook),)
        return hook

    def add_on_enqueue(self, hook: E) -> E:
        self.on_enqueue += (_plain("a hook on enqueue", hook),)
        return hook

    def headers(self, task: str) -> dict[str, str]:
        """What the hooks on enqueue give for a job of this task. A later hook wins."""
        found: dict[str, str] = {}
        for hook in self.on_enqueue:
            given: object = hook(task)
            if not isinstance(given, Mapping):
                raise BadOption(f"what {_name(hook)!r} answers", "headers as a mapping", given)
            found.update(given)
        return found


def _is_async(hook: object) -> bool:
    return inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(
        getattr(hook, "__call__", None)  # noqa: B004 - an object whose call is a coroutine
    )


def _plain(what: str, hook: F) -> F:
    if not callable(hook) or _is_async(hook):
        raise BadOption(what, "a plain function, not 'async def'", hook)
    return hook


def _name(hook: object) -> str:
    return str(getattr(hook, "__qualname__", type(hook).__qualname__))
