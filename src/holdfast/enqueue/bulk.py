"""Many calls on their way to the store: made into jobs in steps, written in chunks.

A chunk is written while the next one is made, because the store and this program seldom need the
same processor. After each step the event loop gets a turn: the write needs it, and so does the rest
of the program.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from itertools import islice

from holdfast.errors import BadArguments, PartlyInserted, PayloadTooLarge, StoreError
from holdfast.job.record import Inserted, NewJob

WRITE_BATCH = 2_000
MAKE_BATCH = 100

Calls = Iterable[object] | AsyncIterable[object]
Write = Callable[[list[NewJob]], Awaitable[list[Inserted]]]


async def write_all(
    calls: Calls, make: Callable[[object], NewJob], write: Write, *, ahead: bool
) -> list[Inserted]:
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
        stand = len(writing.written)
        error.add_note(f"{stand} jobs before this chunk were written and stand")
        raise
    finally:
        await writing.settle()
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
        if flight is None:
            return
        try:
            self.written += await flight
        except PartlyInserted as error:
            raise PartlyInserted([*self.written, *error.answers], error.reason) from error.reason
        except StoreError as error:
            error.add_note(f"{len(self.written)} jobs before this chunk were written and stand")
            raise


async def _made(calls: Calls, make: Callable[[object], NewJob]) -> AsyncIterator[list[NewJob]]:
    jobs: list[NewJob] = []
    async for step in _steps(calls, MAKE_BATCH):
        jobs += [make(call) for call in step]
        if len(jobs) >= WRITE_BATCH:
            yield jobs
            jobs = []
        await asyncio.sleep(0)
    if jobs:
        yield jobs


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
