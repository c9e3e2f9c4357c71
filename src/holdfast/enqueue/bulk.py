"""Many calls on their way to the store: made in steps, written in chunks.

A chunk is written while the next one is made, since the store and this program
seldom need the same processor. Between two steps the loop gets a turn: the
chunk on its way needs it, and so does everything else in the program.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from itertools import islice

from holdfast.errors import BadArguments, PartlyInserted, PayloadTooLarge, StoreError
from holdfast.job.record import Inserted, NewJob

CHUNK = 2_000
STEP = 100

Calls = Iterable[object] | AsyncIterable[object]
Write = Callable[[list[NewJob]], Awaitable[list[Inserted]]]


async def write_all(
    calls: Calls, make: Callable[[object], NewJob], write: Write, *, ahead: bool
) -> list[Inserted]:
    """Write a job for each call, in order. A call that cannot be made into a job ends it
    before its chunk is written; the error says how many jobs stand. Without `ahead` no call
    is asked for while a chunk is on its way: the caller's own connection may serve both."""
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
    """At most one chunk on its way, so that jobs arrive in order."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._flight: asyncio.Future[list[Inserted]] | None = None
        self.written: list[Inserted] = []

    async def begin(self, chunk: list[NewJob]) -> None:
        await self.settle()
        self._flight = asyncio.ensure_future(self._write(chunk))

    async def settle(self) -> None:
        """Until the chunk on its way has arrived; its error is raised here, once, and says
        which jobs stand: those of the chunks before it, and perhaps some of its own."""
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
    async for step in _steps(calls, STEP):
        jobs += [make(call) for call in step]
        if len(jobs) >= CHUNK:
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
