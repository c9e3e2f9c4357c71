"""Pools of warm children that speak JSON lines: programs in any language behind tasks.

A child reads one line for each call, `{"id": 7, "args": {"path": "a.png"}}`, and answers with one:
`{"id": 7, "result": …}`, or `{"id": 7, "error": "why"}`. It serves one call at a time, and ends
when its standard input does. What it writes to standard error is shown when it dies.

A child that says anything else, answers another call, dies, or is still busy when its call is given
up, is killed with all that it started, and another takes its place. A pool whose children fail
again and again rests: its tasks are not claimed for a while, so that one broken program does not
spend the attempts of every job.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import wraps
from inspect import Parameter
from itertools import count
from typing import Any, cast

import msgspec
from msgspec import Raw

from holdfast.codec.signature import Signature
from holdfast.context import Context
from holdfast.errors import BadOption, BadTask, ProgramNotStarted
from holdfast.handlers.exceptions import EndedInChild
from holdfast.handlers.minder import Minder, minder
from holdfast.handlers.piping import Kept, Piped, gone, piped
from holdfast.handlers.programs import ending
from holdfast.job import checks
from holdfast.job.ends import HandedBack, Raised, WorkerLost
from holdfast.resources import Shared

DEATHS = 3
WITHIN_SECONDS = 10.0
REST_SECONDS = 30.0
"""A pool rests for so long when so many of its children have failed within so many seconds."""
LEAVING_SECONDS = 1.0
"""Seconds a child has to end after its standard input has."""
LONGEST_LINE = 16 * 1024 * 1024
MOST_ERROR = 4 * 1024


class ReplyError(msgspec.Struct, frozen=True):
    """What went wrong with a call, in the child's words."""

    message: str
    kind: str = "PoolError"


class Reply(msgspec.Struct, frozen=True):
    """One line of a child."""

    id: int
    result: Raw = Raw(b"null")
    error: ReplyError | str | None = None


class ChildPool:
    """A program that is declared to serve tasks, and how its children fare in this process."""

    def __init__(
        self, name: str, argv: tuple[str, ...], env: Mapping[str, str], cwd: str | None, size: int
    ) -> None:
        checks.check_name("pool name", name)
        checks.count("size", size)
        if not argv:
            raise BadOption("argv", "a list that begins with the program", argv)
        self.name = name
        self.argv = argv
        self.env = env
        self.cwd = cwd
        self.size = size
        self._deaths: deque[float] = deque(maxlen=DEATHS)
        self._rests_until = 0.0
        self._is_news = False
        self.rest = REST_SECONDS

    @property
    def rests(self) -> bool:
        return time.monotonic() < self._rests_until

    def has_news(self) -> bool:
        """Whether it began to rest since somebody asked last."""
        news, self._is_news = self._is_news, False
        return news

    def died(self) -> None:
        """One of its children had to be replaced through a fault of its own."""
        now = time.monotonic()
        self._deaths.append(now)
        if len(self._deaths) == DEATHS and now - self._deaths[0] <= WITHIN_SECONDS:
            self._deaths.clear()
            self._rests_until = now + self.rest
            self._is_news = True

    async def children(
        self,
        one: Minder = Shared(minder),  # noqa: B008 - a mark, as in every function of resources
    ) -> AsyncIterator[Children]:
        """The children of one worker, as a resource of the tasks of this pool."""
        children = Children(self, one)
        try:
            yield children
        finally:
            await children.close()


class Children:
    """At most `size` children, started when first needed."""

    def __init__(self, pool: ChildPool, minder: Minder) -> None:
        self._pool = pool
        self._minder = minder
        self._idle: list[PoolChild] = []
        self._room = asyncio.Semaphore(pool.size)
        self._numbers = count(1)

    async def call(self, args: str) -> Raw:
        """What a child answers to this call, as JSON."""
        async with self._room:
            if self._pool.rests:
                raise EndedInChild(HandedBack())  # it was claimed before
            child = await self._take()
            call = {"id": next(self._numbers), "args": Raw(args.encode())}
            try:
                answer = await child.ask(msgspec.json.encode(call) + b"\n")
                reply = _reply(self._pool.name, answer, call["id"])
            except asyncio.CancelledError:
                await child.end(0.0)
                raise
            except (EOFError, ConnectionError):
                self._pool.died()
                raise EndedInChild(WorkerLost(await child.last_words(self._pool.name))) from None
            except BadReply as error:
                self._pool.died()
                await child.end(0.0)
                raise EndedInChild(Raised(BadReply.__name__, str(error))) from None
            self._idle.append(child)
        match reply.error:
            case None:
                return reply.result
            case str(text):
                raise EndedInChild(Raised("PoolError", text))
            case ReplyError(message, kind):
                raise EndedInChild(Raised(kind, message))

    async def close(self) -> None:
        await asyncio.gather(*(child.end(LEAVING_SECONDS) for child in self._idle))

    async def _take(self) -> PoolChild:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            self._pool.died()
            await child.end(0.0)
        try:
            return await PoolChild.start(self._pool, self._minder)
        except ProgramNotStarted:
            self._pool.died()
            raise


class PoolChild:
    """One child, and this end of its streams."""

    def __init__(self, running: Piped, closing: AsyncExitStack) -> None:
        self._running = running
        self._closing = closing
        self._said = Kept(MOST_ERROR)
        self._listening = asyncio.ensure_future(self._said.read(running.stderr))

    @classmethod
    async def start(cls, pool: ChildPool, minder: Minder) -> PoolChild:
        async with AsyncExitStack() as stack:
            running = await stack.enter_async_context(
                piped(minder, pool.argv, pool.env, pool.cwd, LONGEST_LINE)
            )
            return cls(running, stack.pop_all())
        raise AssertionError  # a stack swallows nothing

    @property
    def alive(self) -> bool:
        return not self._running.program.ended.done()

    async def ask(self, line: bytes) -> bytes:
        """The child's next line. Raises `EOFError` if it dies instead."""
        self._running.stdin.write(line)
        await self._running.stdin.drain()
        try:
            return await self._running.stdout.readuntil()
        except asyncio.IncompleteReadError:
            raise EOFError from None
        except asyncio.LimitOverrunError:
            raise BadReply(f"a line of more than {LONGEST_LINE} bytes") from None

    async def end(self, patience: float) -> None:
        """Close its standard input, give it `patience` seconds, and kill what is left."""
        self._running.stdin.close()
        if patience:
            await asyncio.wait([self._running.program.ended], timeout=patience)
        await gone(self._running.program, 0.0)
        await asyncio.wait([self._listening], timeout=LEAVING_SECONDS)
        self._listening.cancel()
        with suppress(asyncio.CancelledError):
            await self._listening
        await self._closing.aclose()

    async def last_words(self, pool: str) -> str:
        """How it died. A child that only closed its output is killed."""
        await self.end(LEAVING_SECONDS)
        how = ending(self._running.program.ended.result())
        said = self._said.text.strip()
        return f"the child of pool {pool!r} ended with {how}" + (f": {said}" if said else "")


class BadReply(Exception):
    """A line that is no answer to the call."""


def _reply(pool: str, line: bytes, number: object) -> Reply:
    try:
        reply = msgspec.json.decode(line, type=Reply)
    except msgspec.DecodeError as error:
        shown = line[:200].decode("utf-8", "replace").strip()
        raise BadReply(f"the child of pool {pool!r} wrote no reply ({error}): {shown}") from error
    if reply.id != number:
        raise BadReply(f"the child of pool {pool!r} answered call {reply.id} instead of {number}")
    return reply


def function_in(pool: ChildPool, declared: Callable[..., Any], task: str) -> Callable[..., Any]:
    """A function with the parameters and the result of the declared one, which is never called: the
    children of the pool do its work."""
    signature = Signature.of(declared, task=task, context_type=Context)
    if signature.takes_context or signature.resources:
        problem = f"its function runs in pool {pool.name!r}, which gets the arguments of the job"
        raise BadTask(task, f"{problem} alone: leave out the Context and the resources")

    @wraps(declared)
    async def run(*args: Any, holdfast_children: Children, **values: Any) -> Raw:
        return await holdfast_children.call(signature.encode(args, values))

    own = Parameter("holdfast_children", Parameter.KEYWORD_ONLY, default=Shared(pool.children))
    known = inspect.signature(declared)
    parameters = sorted([*known.parameters.values(), own], key=lambda one: one.kind)
    cast("Any", run).__signature__ = known.replace(parameters=parameters)
    return run
