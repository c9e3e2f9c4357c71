"""Pool to the server, kept open between verbs.

A verb that finds a line idle gets it without a turn of the loop, and gives it
back the same way: for a small statement the driver's own pool, which starts
tasks to take a line and to reset it, costs the client as much as all the rest.
Verbs leave nothing in a session, so there is nothing to reset. A line on which
anything but the server's own word ended a verb (a timeout, a cancelled caller,
a cut) is in doubt, and parted with.

A server has room for a hundred lines by default, and a fleet shares it with
everybody else. So a verb that finds all lines busy first waits a moment for one
of them, which is sooner there than a new one; only where that happens again and
again a further line is opened, and one that was not needed for some seconds is
closed. The last line stays.
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
IDLE_FOR = 3.0
PATIENCE = 0.02
"""Seconds that a verb waits for a busy line before another is opened for it."""
WAITS_A_SECOND = 20
"""So many verbs a second may have to wait; past that a line is opened for each that does."""
NO_ROOM_PAUSE = 1.0
"""Seconds until a server that had no room for one more line is asked again."""

Record = asyncpg.Record
Answer = TypeVar("Answer")

if TYPE_CHECKING:  # generic only in the type stubs
    Line = asyncpg.Connection[Record]
else:
    Line = asyncpg.Connection


class Pool:
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
        self._opener: asyncio.TimerHandle | None = None
        self._closer: asyncio.TimerHandle | None = None
        self._waits, self._waits_since = 0, 0.0

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
        if self._count == 0 or self._is_crowded():
            self._open_if_room()
        else:
            self._open_later(PATIENCE)
        try:
            async with asyncio.timeout(ACQUIRE_TIMEOUT):
                return await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._give_back(waiter.result())
            raise

    # Pool that come ----------------------------------------------------------------------

    def _is_crowded(self) -> bool:
        """Whether too many verbs had to wait within this second, with the one that asks."""
        now = time.monotonic()
        if now - self._waits_since > 1.0:
            self._waits, self._waits_since = 0, now
        self._waits += 1
        return self._waits > WAITS_A_SECOND

    def _open_later(self, seconds: float) -> None:
        if self._opener is None:
            loop = asyncio.get_running_loop()
            self._opener = loop.call_later(seconds, self._open_for_the_patient)

    def _open_for_the_patient(self) -> None:
        """One line at a time, as long as somebody waits and there may be more."""
        self._opener = None
        if self._waiter(keep=True) is not None and self._count < self._most:
            self._open_if_room()
            self._open_later(PATIENCE)

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
            self._not_opened(error)
        else:
            if not self._handed_on(line):
                self._idle.insert(0, (line, time.monotonic()))
                self._close_later()

    def _not_opened(self, error: Exception) -> None:
        """A server without room for one more line still serves those there are."""
        if isinstance(error, asyncpg.TooManyConnectionsError) and self._count > 0:
            self._open_later(NO_ROOM_PAUSE)
            return
        if waiter := self._waiter():
            waiter.set_exception(error)
        self._open_for_waiters()

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

    # Pool that come back and go ----------------------------------------------------------

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
        self._idle.append((line, time.monotonic()))
        self._close_later()

    def _close_later(self) -> None:
        if self._closer is None and self._count > 1:
            self._closer = asyncio.get_running_loop().call_later(IDLE_FOR, self._close_idle)

    def _close_idle(self) -> None:
        """Part with lines that were not needed lately, but for the last there is."""
        self._closer = None
        long_ago = time.monotonic() - IDLE_FOR
        while (len(self._idle) > 1 or self._busy) and self._idle and self._idle[0][1] <= long_ago:
            self._part_with(self._idle.pop(0)[0])
        self._close_later()

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
        for timer in (self._opener, self._closer):
            if timer is not None:
                timer.cancel()
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
