"""Many calls on their way to the store: made into jobs in steps, written in chunks.

A chunk is written while the next one is made, because the store and this program seldom need the
same processor. SQLite writes in a thread of this program, which mostly waits for the interpreter
until the next chunk is made: there one comes after the other. After each step the event loop gets a
turn: the write needs it, and so does the rest of the program.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import contextmanager
from itertools import islice

from holdfast.errors import BadArguments, PartlyInserted, PayloadTooLarge, StoreError
from holdfast.job.record import Inserted, NewJob

WRITE_BATCH = 2_000
MAKE_BATCH = 100

Calls = Iterable[object] | AsyncIterable[object]
Make = Callable[[Sequence[object]], list[NewJob]]
Write = Callable[[list[NewJob]], Awaitable[list[Inserted]]]
Begin = Callable[[list[NewJob]], Callable[[], list[Inserted]]]
"""Begins to write a chunk, and answers with a function that waits until it is written."""


async def write_all(calls: Calls, make: Make, write: Write, *, ahead: bool) -> list[Inserted]:
    """Write a job for each call, in order.

    A call that cannot be made into a job raises before its chunk is written; the error says how
    many jobs were written. With `ahead` the next calls are read while a chunk is being written.
    Without it they are not, because the caller's own connection may serve both.
    """
    writing = _Writing(write)
    try:
        async for chunk in _made(calls, make):
            await writing.begin(chunk)
            if not ahead:
                await writing.settle()
    except (BadArguments, PayloadTooLarge) as error:
        await writing.settle()
        _note(error, writing.written)
        raise
    finally:
        await writing.settle()
    return writing.written


def write_all_sync(
    calls: Iterable[object], make: Make, begin: Begin, *, ahead: bool
) -> list[Inserted]:
    """The same for a program without an event loop. The calls are read in the caller's thread."""
    writing = _WritingSync(begin)
    try:
        for chunk in _made_sync(calls, make):
            writing.begin(chunk)
            if not ahead:
                writing.settle()
    except (BadArguments, PayloadTooLarge) as error:
        writing.settle()
        _note(error, writing.written)
        raise
    finally:
        writing.settle()
    return writing.written


class _Writing:
    """Writes one chunk at a time, so that jobs arrive in order."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._flight: asyncio.Future[list[Inserted]] | None = None
        self.written: list[Inserted] = []

    async def begin(self, chunk: list[NewJob]) -> None:
        await self.settle()
        self._flight = asyncio.ensure_future(self._write(chunk))

    async def settle(self) -> None:
        """Wait until the current chunk is written. An error of the write is raised here, once. It
        says which jobs were written: all jobs of earlier chunks, and perhaps some of this one."""
        flight, self._flight = self._flight, None
        if flight is not None:
            with _saying_what_stands(self.written):
                self.written += await flight


class _WritingSync:
    """The same in the caller's thread, which waits where the other awaits."""

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._wait: Callable[[], list[Inserted]] | None = None
        self.written: list[Inserted] = []

    def begin(self, chunk: list[NewJob]) -> None:
        self.settle()
        with _saying_what_stands(self.written):
            self._wait = self._begin(chunk)

    def settle(self) -> None:
        wait, self._wait = self._wait, None
        if wait is not None:
            with _saying_what_stands(self.written):
                self.written += wait()


@contextmanager
def _saying_what_stands(written: list[Inserted]) -> Iterator[None]:
    """Have an error of the store say which jobs were written before it."""
    try:
        yield
    except PartlyInserted as error:
        raise PartlyInserted([*written, *error.answers], error.reason) from error.reason
    except StoreError as error:
        _note(error, written)
        raise


def _note(error: BaseException, written: list[Inserted]) -> None:
    error.add_note(f"{len(written)} jobs before this chunk were written and stand")


async def _made(calls: Calls, make: Make) -> AsyncIterator[list[NewJob]]:
    jobs: list[NewJob] = []
    async for step in _steps(calls, MAKE_BATCH):
        jobs += make(step)
        if len(jobs) >= WRITE_BATCH:
            yield jobs
            jobs = []
        await asyncio.sleep(0)
    if jobs:
        yield jobs


def _made_sync(calls: Iterable[object], make: Make) -> Iterator[list[NewJob]]:
    iterator = iter(calls)
    while step := list(islice(iterator, WRITE_BATCH)):
        yield make(step)


async def _steps(calls: Calls, size: int) -> AsyncIterator[list[object]]:
    if isinstance(calls, AsyncIterable):
        async for step in _steps_of_stream(calls, size):
            yield step
        return
    iterator = iter(calls)
    while step := list(islice(iterator, size)):
        yield step


async def _steps_of_stream(calls: AsyncIterable[object], size: int) -> AsyncIterator[list[object]]:
    step: list[object] = []
    async for call in calls:
        step.append(call)
        if len(step) == size:
            yield step
            step = []
    if step:
        yield step
