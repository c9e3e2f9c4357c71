"""How a user's code is asked: a provider or a planner, kept at arm's length.

A question runs in a task of its own, and plain code in a daemon thread of its own besides. It is
waited for as long as its limit and then left behind. A function of which a question was left behind
is not asked again until that question has ended: one that hangs costs what is left behind once, not
more at every look. What a function raises ends its own question and nothing else, be it SystemExit.

What cannot be bounded: Python cannot stop a thread. Plain code that computes for ever keeps its
thread and its share of the interpreter; a coroutine that computes without an `await` holds up the
whole loop.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncIterable, Callable, Coroutine
from contextvars import copy_context
from itertools import islice
from typing import Any

from holdfast.errors import HoldfastError

PATIENCE = 0.25
"""Seconds after which a question is slow: who counts what is under way leaves it out."""
MOST_AT_ONCE = 8
"""Questions to one function that may be under way together; the next one waits its turn."""
TURN = 0.05


class TooSlow(HoldfastError):
    """A user's provider or planner did not answer in time."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} did not answer within {seconds:g} s; it is asked again later")


class StillHangs(HoldfastError):
    """A user's provider or planner has not come to the end of an earlier question."""

    def __init__(self, what: str, seconds: float) -> None:
        told = "it is not asked again until it has ended"
        super().__init__(f"{what} still runs after {seconds:.0f} s; {told}")


class TooMany(HoldfastError):
    """A user's provider or planner gave more than anybody can want."""

    def __init__(self, what: str, most: int) -> None:
        super().__init__(f"{what} gave more than {most:,} values; none of them counts")


class GaveUp(HoldfastError):
    """A user's provider or planner raised what is meant to end a program or a task."""

    def __init__(self, what: str, error: BaseException) -> None:
        told = f"{type(error).__name__}: {error}".rstrip(": ")
        super().__init__(f"{what} raised {told}, which ends this look only")


class Question:
    """One call of a user's code. `parts` of it still run: a task, a thread."""

    __slots__ = ("begun", "left", "parts")

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.left = False
        self.parts = 0


class Asking:
    """Asks, within limits, and knows what was left behind."""

    def __init__(self, limit: float) -> None:
        self.slow = 0
        self._limit = limit
        self._questions: dict[str, list[Question]] = {}
        self._tasks: set[asyncio.Task[list[Any]]] = set()

    async def ask(
        self, what: str, function: Callable[..., Any], *args: Any, most: int
    ) -> list[Any]:
        """All that the function gives; an error if that is more than `most` or takes too long."""
        question = await self._turn(what)
        answer = _answer(question, what, function, args, most)
        task = asyncio.create_task(answer, name=f"holdfast-ask-{what}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        try:
            if not await self._waited(task):
                raise TooSlow(what, self._limit)
        except BaseException:
            question.left = True
            task.cancel()
            raise
        if task.cancelled():
            raise GaveUp(what, asyncio.CancelledError())
        if len(task.result()) > most:
            raise TooMany(what, most)
        return task.result()

    async def _turn(self, what: str) -> Question:
        begun = time.monotonic()
        while True:
            running = [one for one in self._questions.get(what, ()) if one.parts]
            for one in running:
                if one.left:
                    raise StillHangs(what, time.monotonic() - one.begun)
            if len(running) < MOST_AT_ONCE:
                break
            if time.monotonic() - begun > self._limit:
                raise TooSlow(what, self._limit)
            await asyncio.sleep(TURN)
        question = Question()
        question.parts = 1
        self._questions[what] = [*running, question]
        return question

    async def _waited(self, task: asyncio.Task[list[Any]]) -> bool:
        done, _ = await asyncio.wait({task}, timeout=min(PATIENCE, self._limit))
        if done or self._limit <= PATIENCE:
            return bool(done)
        self.slow += 1
        try:
            done, _ = await asyncio.wait({task}, timeout=self._limit - PATIENCE)
        finally:
            self.slow -= 1
        return bool(done)

    def _ended(self, task: asyncio.Task[list[Any]]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # of one that was left behind nobody else asks


def _answer(
    question: Question, what: str, function: Callable[..., Any], args: tuple[Any, ...], most: int
) -> Coroutine[Any, Any, list[Any]]:
    async def answer() -> list[Any]:
        try:
            return await _all(question, function, args, most)
        except (Exception, asyncio.CancelledError):
            raise
        except BaseException as error:
            raise GaveUp(what, error) from error
        finally:
            question.parts -= 1

    return answer()


async def _all(
    question: Question, function: Callable[..., Any], args: tuple[Any, ...], most: int
) -> list[Any]:
    """One value more than `most` tells that there are too many."""
    given: Any
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        given = function(*args)
    else:
        given = await _in_thread(question, lambda: _taken(function(*args), most))
    if inspect.isawaitable(given):
        given = await given
    if isinstance(given, AsyncIterable):
        return await _streamed(given, most)
    if isinstance(given, (list, tuple, set, frozenset, dict)):
        return list(islice(given, most + 1))
    taken: list[Any] = await _in_thread(question, lambda: _taken(given, most))
    return taken


def _taken(given: Any, most: int) -> Any:
    """A generator runs where it was made, in one thread from its beginning to its end."""
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


async def _in_thread(question: Question, function: Callable[[], Any]) -> Any:
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
                error = RuntimeError("it raised StopIteration")
        question.parts -= 1
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, value, error)

    question.parts += 1
    threading.Thread(target=run, name="holdfast-provider", daemon=True).start()
    return await answer
