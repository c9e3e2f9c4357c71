"""Calls of user code (a scope provider, a planner) that cannot hold up or end the worker.

Each call runs in a task of its own, and a plain function also in a daemon thread of its own. The
caller waits for at most the limit and then abandons the call. A function with an abandoned call
that still runs is not called again, so a function that hangs costs one task and one thread, not
one more at every evaluation. Whatever a function raises, SystemExit included, ends its own call
and nothing else.

Two things cannot be bounded, because Python cannot stop a thread. A plain function that computes
for ever keeps its thread and its share of the interpreter. A coroutine that computes without an
`await` blocks the whole event loop.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncIterable, Callable
from contextvars import copy_context
from itertools import islice
from typing import Any

from holdfast.errors import HoldfastError

SLOW_SECONDS = 0.25
"""A call that takes longer is slow. The evaluator does not count slow calls against the number of
evaluations that may run at once."""
CALLS_AT_ONCE = 8
"""Calls of one function that may run together; the next call waits."""
TURN_SECONDS = 0.05
"""How often a waiting call checks whether it may begin."""


class TooSlow(HoldfastError):
    """A user's provider or planner did not answer in time."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} did not answer within {seconds:g} s; it is asked again later")


class StillHangs(HoldfastError):
    """An earlier call of a user's provider or planner was abandoned and still runs."""

    def __init__(self, what: str, seconds: float) -> None:
        advice = "it is not asked again until it has ended"
        super().__init__(f"{what} still runs after {seconds:.0f} s; {advice}")


class TooMany(HoldfastError):
    """A user's provider or planner gave more values than the limit."""

    def __init__(self, what: str, most: int) -> None:
        super().__init__(f"{what} gave more than {most:,} values; none of them counts")


class GaveUp(HoldfastError):
    """A user's provider or planner raised an exception that ends a program or a task."""

    def __init__(self, what: str, error: BaseException) -> None:
        cause = f"{type(error).__name__}: {error}".rstrip(": ")
        super().__init__(f"{what} raised {cause}, which ends this evaluation only")


class _Call:
    """One call. `parts` counts what of it still runs: its task, its thread."""

    __slots__ = ("abandoned", "begun", "parts")

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.abandoned = False
        self.parts = 1


class BoundedCalls:
    """Calls user code within limits and remembers which calls still run.

    `slow` counts the callers that wait for a slow answer at this moment.
    """

    def __init__(self, limit: float) -> None:
        self.slow = 0
        self._limit = limit
        self._calls: dict[str, list[_Call]] = {}
        self._tasks: set[asyncio.Task[list[Any]]] = set()

    async def values(
        self, what: str, function: Callable[..., Any], *args: Any, most: int
    ) -> list[Any]:
        """All values that the function gives; an error if it gives more than `most` or takes
        longer than the limit."""
        call = await self._begin(what)
        task = asyncio.create_task(
            _collect(call, what, function, args, most), name=f"holdfast-ask-{what}"
        )
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        try:
            if not await self._answered(task):
                raise TooSlow(what, self._limit)
        except BaseException:
            call.abandoned = True
            task.cancel()
            raise
        if task.cancelled():
            raise GaveUp(what, asyncio.CancelledError())
        if len(task.result()) > most:
            raise TooMany(what, most)
        return task.result()

    async def _begin(self, what: str) -> _Call:
        """Wait until few enough calls of the function run."""
        asked_at = time.monotonic()
        while True:
            running = [call for call in self._calls.get(what, ()) if call.parts]
            for call in running:
                if call.abandoned:
                    raise StillHangs(what, time.monotonic() - call.begun)
            if len(running) < CALLS_AT_ONCE:
                break
            if time.monotonic() - asked_at > self._limit:
                raise TooSlow(what, self._limit)
            await asyncio.sleep(TURN_SECONDS)
        begun = _Call()
        self._calls[what] = [*running, begun]
        return begun

    async def _answered(self, task: asyncio.Task[list[Any]]) -> bool:
        """Whether the task ended within the limit; the wait counts as slow after a moment."""
        done, _ = await asyncio.wait({task}, timeout=min(SLOW_SECONDS, self._limit))
        if done or self._limit <= SLOW_SECONDS:
            return bool(done)
        self.slow += 1
        try:
            done, _ = await asyncio.wait({task}, timeout=self._limit - SLOW_SECONDS)
        finally:
            self.slow -= 1
        return bool(done)

    def _ended(self, task: asyncio.Task[list[Any]]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # nobody else reads the error of an abandoned call


async def _collect(
    call: _Call, what: str, function: Callable[..., Any], args: tuple[Any, ...], most: int
) -> list[Any]:
    try:
        return await _values(call, function, args, most)
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:
        raise GaveUp(what, error) from error
    finally:
        call.parts -= 1


async def _values(
    call: _Call, function: Callable[..., Any], args: tuple[Any, ...], most: int
) -> list[Any]:
    """At most `most` + 1 values: the extra one shows that there are too many."""
    given: Any
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        given = function(*args)
    else:
        given = await _in_thread(call, lambda: _taken(function(*args), most))
    if inspect.isawaitable(given):
        given = await given
    if isinstance(given, AsyncIterable):
        return await _streamed(given, most)
    if isinstance(given, (list, tuple, set, frozenset, dict)):
        return list(islice(given, most + 1))
    taken: list[Any] = await _in_thread(call, lambda: _taken(given, most))
    return taken


def _taken(given: Any, most: int) -> Any:
    """The values of a plain iterable. A generator runs from its first value to its last in the
    thread that made it."""
    if inspect.isawaitable(given) or isinstance(given, AsyncIterable):
        return given
    return list(islice(given, most + 1))


async def _streamed(given: AsyncIterable[Any], most: int) -> list[Any]:
    taken: list[Any] = []
    stream = aiter(given)
    try:
        async for value in stream:
            taken.append(value)
            if len(taken) > most:
                break
    finally:
        if inspect.isasyncgen(stream):
            await stream.aclose()
    return taken


async def _in_thread(call: _Call, function: Callable[[], Any]) -> Any:
    """Run plain code in a daemon thread. If the caller stops waiting, the thread goes on alone."""
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
        except BaseException as raised:  # noqa: BLE001 - handed to the coroutine that awaits it
            error = raised
            if isinstance(raised, StopIteration):
                error = RuntimeError("it raised StopIteration")
        call.parts -= 1
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, value, error)

    call.parts += 1
    threading.Thread(target=run, name="holdfast-provider", daemon=True).start()
    return await answer
