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
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, TypeVar

import msgspec

from holdfast.context import Context
from holdfast.errors import BadOption
from holdfast.job.headers import decode_headers, encode_headers
from holdfast.job.record import Inserted, NewJob

AroundAttempt = Callable[[Context, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Called on the worker's loop with the context and what runs the rest; answers with the result."""
InThread = Callable[[Context, Callable[[], Any]], Any]
"""The same inside the thread, or the child process, of a plain function."""
ToChild = Callable[[Context], Mapping[str, str]]
"""Called on the worker's loop, inside the hooks around the attempt, before a child process is given
the attempt; answers with what `ctx.carried` holds in the child."""
OnEnqueue = Callable[[str], Mapping[str, str]]
"""Called with the name of a task; answers with headers for the job that is being enqueued."""

HeaderGiver = Callable[[str, Mapping[str, str]], Mapping[str, str]]
"""Called with the id and the headers of a job; answers with further headers."""


class Enqueue:
    """One enqueue, of one job or of many, as the hooks around it see it.

    `headers` are those that the caller gave for all of its jobs. `sent` counts the jobs that were
    sent to the store so far. `inserted` has the answers of the store, once the enqueue has
    succeeded.
    """

    __slots__ = ("_givers", "headers", "inserted", "is_bulk", "queue", "sent", "task")

    def __init__(
        self, task: str, queue: str, headers: Mapping[str, str], *, is_bulk: bool = False
    ) -> None:
        self.task = task
        self.queue = queue
        self.headers = headers
        self.is_bulk = is_bulk
        self.sent = 0
        self.inserted: list[Inserted] = []
        self._givers: list[HeaderGiver] = []

    @classmethod
    def of(cls, job: NewJob) -> Enqueue:
        return cls(job.task, job.queue, decode_headers(job.headers))

    def give_headers(self, giver: HeaderGiver) -> None:
        """Have `giver(job_id, headers)` give further headers to each job of this enqueue. Headers
        that a job has already stay as they are."""
        self._givers.append(giver)

    def with_headers(self, job: NewJob) -> NewJob:
        """The job with what the hooks give it."""
        if not self._givers:
            return job
        own, given = decode_headers(job.headers), dict[str, str]()
        for giver in self._givers:
            given.update(giver(job.id, own))
        return msgspec.structs.replace(job, headers=encode_headers({**given, **own}))


AroundEnqueue = Callable[[Enqueue], AbstractContextManager[object] | Iterator[object]]
"""Called in the program that enqueues; answers with a context manager that is entered around the
write, or is a generator function with one `yield`."""

A = TypeVar("A", bound=AroundAttempt)
T = TypeVar("T", bound=InThread)
C = TypeVar("C", bound=ToChild)
E = TypeVar("E", bound=OnEnqueue)
W = TypeVar("W", bound=AroundEnqueue)
F = TypeVar("F")


class Hooks:
    """The hooks of one app, in the order of their registration."""

    def __init__(self) -> None:
        self.around_attempt: tuple[AroundAttempt, ...] = ()
        self.in_thread: tuple[InThread, ...] = ()
        self.to_child: tuple[ToChild, ...] = ()
        self.on_enqueue: tuple[OnEnqueue, ...] = ()
        self.around_enqueue: tuple[Callable[[Enqueue], AbstractContextManager[object]], ...] = ()

    @property
    def surround_handlers(self) -> bool:
        """Whether there is a hook that any handler would have around it."""
        return bool(self.around_attempt or self.in_thread or self.to_child)

    def add_around_attempt(self, hook: A) -> A:
        if not _is_async(hook):
            raise BadOption("a hook around attempts", "an 'async def' function", hook)
        self.around_attempt += (hook,)
        return hook

    def add_in_thread(self, hook: T) -> T:
        self.in_thread += (_plain("a hook in threads", hook),)
        return hook

    def add_to_child(self, hook: C) -> C:
        self.to_child += (_plain("a hook to children", hook),)
        return hook

    def add_on_enqueue(self, hook: E) -> E:
        self.on_enqueue += (_plain("a hook on enqueue", hook),)
        return hook

    def add_around_enqueue(self, hook: W) -> W:
        what: Any = _plain("a hook around enqueues", hook)
        self.around_enqueue += (
            contextmanager(what) if inspect.isgeneratorfunction(what) else what,
        )
        return hook

    @contextmanager
    def around(self, enqueue: Enqueue) -> Iterator[Enqueue]:
        """Be inside all hooks around enqueues. What the enqueue raises passes through them. A hook
        may raise another error instead, but cannot swallow one: no job could be answered."""
        failed: BaseException | None = None
        try:
            with ExitStack() as stack:
                for hook in self.around_enqueue:
                    stack.enter_context(_block(hook, enqueue))
                try:
                    yield enqueue
                except BaseException as error:
                    failed = error
                    raise
            if failed is not None:
                raise failed
        finally:
            del failed  # the error refers to this frame

    def headers(self, task: str) -> dict[str, str]:
        """What the hooks on enqueue give for a job of this task. A later hook wins."""
        return _answered(self.on_enqueue, task, "headers as a mapping")

    def carried(self, context: Context) -> dict[str, str]:
        """What the hooks give for the child process that runs this attempt. A later hook wins."""
        found = _answered(self.to_child, context, "a mapping of text to text")
        if not all(isinstance(text, str) for pair in found.items() for text in pair):
            raise BadOption("what hooks hand to a child", "a mapping of text to text", found)
        return found


class TakesHooks:
    """The decorators by which an app is given its hooks."""

    def __init__(self) -> None:
        self.hooks = Hooks()

    def around_attempt(self, hook: A) -> A:
        """Run `async def hook(ctx, run)` around every attempt, on the worker's loop. `await run()`
        runs the rest, and gives the result or raises the exception."""
        return self.hooks.add_around_attempt(hook)

    def in_thread(self, hook: T) -> T:
        """Run `def hook(ctx, run)` around every plain function, inside its thread or its child
        process. `run()` runs the rest."""
        return self.hooks.add_in_thread(hook)

    def to_child(self, hook: C) -> C:
        """Hand what `def hook(ctx)` answers on to the child process of an attempt, where it is
        `ctx.carried`. The hook is called on the worker's loop, inside the hooks around it."""
        return self.hooks.add_to_child(hook)

    def on_enqueue(self, hook: E) -> E:
        """Give every job that this program enqueues the headers that `def hook(task)` answers."""
        return self.hooks.add_on_enqueue(hook)

    def around_enqueue(self, hook: W) -> W:
        """Run `def hook(enqueue)`, a generator with one `yield` or a function that answers with a
        context manager, around every enqueue of this program: of one job or of many."""
        return self.hooks.add_around_enqueue(hook)


def _answered(
    hooks: tuple[Callable[[F], Mapping[str, str]], ...], question: F, expected: str
) -> dict[str, str]:
    found: dict[str, str] = {}
    for hook in hooks:
        given: object = hook(question)
        if not isinstance(given, Mapping):
            raise BadOption(f"what {_name(hook)!r} answers", expected, given)
        found.update(given)
    return found


def _block(
    hook: Callable[[Enqueue], AbstractContextManager[object]], enqueue: Enqueue
) -> AbstractContextManager[object]:
    found: object = hook(enqueue)
    if not isinstance(found, AbstractContextManager):
        raise BadOption(f"what {_name(hook)!r} answers", "a context manager", found)
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
