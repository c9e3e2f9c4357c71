"""Lines to the server, kept open between verbs.

A verb that finds a line idle gets it without a turn of the loop, and gives it
back the same way: for a small statement the driver's own pool, which starts
tasks to take a line and to reset it, costs the client as much as all the rest.
Verbs leave nothing in a session, so there is nothing to reset. A line on which
anything but the server's own word ended a verb (a timeout, a cancelled caller,
a cut) is in doubt, and parted with.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, TypeVar

import asyncpg

from holdfast.store.postgres.failures import line_lost

ACQUIRE_TIMEOUT = 15.0
PARTING_TIMEOUT = 5.0
IDLE_FOR = 300.0

Record = asyncpg.Record
Answer = TypeVar("Answer")

if TYPE_CHECKING:  # generic only in the type stubs
    Line = asyncpg.Connection[Record]
else:
    Line = asyncpg.Connection


class Lines:
    """At most so many lines of one store; the one used last goes out first, so that those
    which a burst has needed grow old and are closed."""

    def __init__(self, connect: Callable[[], Awaitable[Line]], most: int) -> None:
        self._connect = connect
        self._most = most
        self._idle: list[tuple[Line, float]] = []
        self._busy: set[Line] = set()
        self._waiting: deque[asyncio.Future[Line]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0  # of lines, with those that are being opened or parted with
        self._none_left = asyncio.Event()
        self._closed = False

    async def use(self, work: Callable[[Line], Awaitable[Answer]]) -> Answer:
        """Do `work` on a line of its own."""
        line = self._warm() or await self._next()
        self._busy.add(line)
        try:
            answer = await work(line)
        except BaseException as error:
            self._take_back(line, error)
            raise
        self._give_back(line)
        return answer

    def _warm(self) -> Line | None:
        while self._idle:
            line, _ = self._idle.pop()
            if not line.is_closed():
                return line
            self._drop(line)
        return None

    async def _next(self) -> Line:
        """Whichever is free first: a new line, or one that is given back. Most verbs end
        sooner than a line is opened, and leave a line that knows its statements."""
        waiter: asyncio.Future[Line] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._open_if_room()
        try:
            async with asyncio.timeout(ACQUIRE_TIMEOUT):
                return await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._give_back(waiter.result())
            raise

    # Lines that come ----------------------------------------------------------------------

    def _open_if_room(self) -> None:
        if self._count < self._most:
            self._count += 1
            self._start(self._open())

    async def _open(self) -> None:
        try:
            line = await self._connect()
        except BaseException as error:
            self._one_fewer()
            if not isinstance(error, Exception):
                raise
            if waiter := self._waiter():
                waiter.set_exception(error)
            self._open_for_waiters()
        else:
            if not self._handed_on(line):
                self._idle.insert(0, (line, time.monotonic()))

    def _open_for_waiters(self) -> None:
        if self._waiter(keep=True) is not None:
            self._open_if_room()

    def _waiter(self, *, keep: bool = False) -> asyncio.Future[Line] | None:
        """Who has waited longest and still does."""
        while self._waiting:
            if not self._waiting[0].done():
                return self._waiting[0] if keep else self._waiting.popleft()
            self._waiting.popleft()
        return None

    def _handed_on(self, line: Line) -> bool:
        """Whether somebody waited for it, or it is not wanted any more."""
        if self._closed:
            self._part_with(line)
            return True
        if (waiter := self._waiter()) is None:
            return False
        waiter.set_result(line)
        return True

    # Lines that come back and go ----------------------------------------------------------

    def _take_back(self, line: Line, error: BaseException) -> None:
        """A lost line speaks for the idle ones: the server is gone, or was."""
        if isinstance(error, asyncpg.PostgresError) and not line_lost(error):
            self._give_back(line)
            return
        self._part_with(line)
        if isinstance(error, Exception) and line_lost(error):
            idle, self._idle = self._idle, []
            for other, _ in idle:
                self._drop(other)

    def _give_back(self, line: Line) -> None:
        if line.is_closed() or line.is_in_transaction():
            self._part_with(line)
            return
        self._busy.discard(line)
        if self._handed_on(line):
            return
        now = time.monotonic()
        self._idle.append((line, now))
        if self._idle[0][1] + IDLE_FOR < now:
            self._drop(self._idle.pop(0)[0])

    def _drop(self, line: Line) -> None:
        line.terminate()
        self._one_fewer()

    def _part_with(self, line: Line) -> None:
        """In a task of its own, since the server may yet have to hear that a statement is
        cancelled; until then the line counts."""
        self._start(self._part(line))

    async def _part(self, line: Line) -> None:
        try:
            await _close(line)
        finally:
            self._busy.discard(line)
            self._one_fewer()
            self._open_for_waiters()

    def _one_fewer(self) -> None:
        self._count -= 1
        if self._closed and self._count == 0:
            self._none_left.set()

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="holdfast-line")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Part with all lines; one that a verb does not give back in time is cut."""
        self._closed = True
        while waiter := self._waiter():
            waiter.set_exception(asyncpg.InterfaceError("the store was closed"))
        idle, self._idle = self._idle, []
        for line, _ in idle:
            self._part_with(line)
        if self._count == 0:
            return
        try:
            await asyncio.wait_for(self._none_left.wait(), PARTING_TIMEOUT)
        except TimeoutError:
            for line in tuple(self._busy):
                line.terminate()


async def _close(line: Line) -> None:
    try:
        await line.close(timeout=PARTING_TIMEOUT)
    except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        line.terminate()
