"""Providers of scopes and planner hooks: a user's code, kept at arm's length.

A provider may be a coroutine function, an async generator, a plain function or a plain
generator; what it gives is read in pages. Plain code runs in a thread of its own, a daemon: one
that hangs is left behind and keeps neither the loop nor the program from going on. Whatever a
user's code does has a time limit.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextvars import copy_context
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from holdfast.errors import BadOption, HoldfastError

PAGE = 1_000
LIMIT = 30.0
SCOPE_LENGTH = 256
MOST_PLANS = 100_000

T = TypeVar("T")
ScopeProvider = Callable[[], Any]
"""Gives the scopes of a schedule: text, in any order, each once."""
Planner = Callable[[str, datetime, datetime], Any]
"""`planner(scope, after, now)` gives plan times later than `after`, up to `now`."""


class TooSlow(HoldfastError):
    """A user's provider or planner did not answer in time."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} did not answer within {seconds:g} s; it is asked again later")


class Providers:
    """What this program has registered, by name."""

    def __init__(self, *, page: int = PAGE, limit: float = LIMIT) -> None:
        self.scopes: dict[str, ScopeProvider] = {}
        self.planners: dict[str, Planner] = {}
        self._page = page
        self._limit = limit

    def knows(self, scopes: str | None, planner: str | None) -> bool:
        return (scopes is None or scopes in self.scopes) and (
            planner is None or planner in self.planners
        )

    async def pages(self, name: str) -> AsyncIterator[list[str]]:
        """The scopes in pages, none empty; each page within the time limit."""
        what = f"scope provider {name!r}"
        given = await self._limited(what, _called(self.scopes[name]))
        take = _taker(given)
        while page := await self._limited(what, take(self._page)):
            yield list(dict.fromkeys(_checked(what, scope) for scope in page))

    async def planned(
        self, name: str, scope: str, after: datetime, now: datetime
    ) -> list[datetime]:
        what = f"planner {name!r}"
        given = await self._limited(what, _called(self.planners[name], scope, after, now))
        moments: list[datetime] = await self._limited(what, _taker(given)(MOST_PLANS))
        return moments

    async def _limited(self, what: str, answer: Awaitable[Any]) -> Any:
        limit = asyncio.timeout(self._limit)
        try:
            async with limit:
                return await answer
        except TimeoutError:
            if limit.expired():
                raise TooSlow(what, self._limit) from None
            raise


def _checked(what: str, scope: object) -> str:
    if not isinstance(scope, str) or not 0 < len(scope) <= SCOPE_LENGTH or "\x00" in scope:
        raise BadOption(f"{what}: scope", f"text of 1 to {SCOPE_LENGTH} characters", scope)
    return scope


async def _called(function: Callable[..., Any], *args: Any) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(*args)
    if inspect.isasyncgenfunction(function):
        return function(*args)
    answer = await in_thread(lambda: function(*args))
    return await answer if inspect.isawaitable(answer) else answer


def _taker(given: Any) -> Callable[[int], Awaitable[list[Any]]]:
    """How to take the next so many of what a provider gave."""
    if isinstance(given, AsyncIterable):
        stream = aiter(given)
        return lambda size: _from_stream(stream, size)
    rest = iter(given)
    return lambda size: _from_plain(given, rest, size)


async def _from_stream(stream: AsyncIterator[T], size: int) -> list[T]:
    taken: list[T] = []
    async for item in stream:
        taken.append(item)
        if len(taken) == size:
            break
    return taken


async def _from_plain(given: Iterable[T], rest: Iterator[T], size: int) -> list[T]:
    """A collection is only cut; anything lazier runs the user's code while it is read."""
    if isinstance(given, (list, tuple, set, frozenset, dict)):
        return list(islice(rest, size))
    taken: list[T] = await in_thread(lambda: list(islice(rest, size)))
    return taken


async def in_thread(function: Callable[[], Any]) -> Any:
    """Run plain code in a daemon thread; who stops waiting leaves it behind."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()
    context = copy_context()

    def tell(value: Any, error: BaseException | None) -> None:
        if not answer.done():
            answer.set_result(value) if error is None else answer.set_exception(error)

    def run() -> None:
        value, error = None, None
        try:
            value = context.run(function)
        except BaseException as raised:  # noqa: BLE001 - handed to whoever awaits
            error = raised
            if isinstance(raised, StopIteration):
                error = RuntimeError("the provider raised StopIteration")
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, value, error)

    threading.Thread(target=run, name="holdfast-provider", daemon=True).start()
    return await answer
