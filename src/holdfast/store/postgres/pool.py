"""Connections to the server, kept open between verbs.

A verb that finds an idle connection gets it without a turn of the loop, and gives it back the same
way. For a small statement the driver's own pool, which starts tasks to take a connection and to
reset it, costs the client as much as all the rest. Verbs leave nothing in a session, so there is
nothing to reset. If a verb ends by anything other than a server response (timeout, cancellation,
lost socket), the state of its connection is unknown, so the connection is closed.

Where one connection is of no more use, because it was lost or because its session takes no writes,
the others were most likely opened to the same server in the same state. So the pool closes all of
them: the idle ones at once, those in use when they are given back.

A server has room for a hundred connections by default, and a fleet shares it with everybody else.
So a verb that finds all connections busy first waits a moment for one of them, which comes sooner
than a new one. Only where verbs wait again and again is a further connection opened. A connection
that was not needed for some seconds is closed, but the last one stays.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, TypeVar

import asyncpg

from holdfast.store.postgres.errors import needs_new_connection

ACQUIRE_TIMEOUT = 15.0
CLOSE_TIMEOUT = 5.0
IDLE_SECONDS = 3.0
PATIENCE_SECONDS = 0.02
"""How long a verb waits for a busy connection before another is opened for it."""
WAITS_A_SECOND = 20
"""So many verbs a second may have to wait; past that each verb that waits has one opened."""
NO_ROOM_SECONDS = 1.0
"""The pause before a server that had no room for one more connection is asked again."""

Record = asyncpg.Record
Answer = TypeVar("Answer")

if TYPE_CHECKING:  # generic only in the type stubs
    Connection = asyncpg.Connection[Record]
else:
    Connection = asyncpg.Connection


class Pool:
    """At most so many connections of one store. The one used last goes out first, so that those
    that only a burst needed stay idle and are closed."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], most: int) -> None:
        self._connect = connect
        self._most = most
        self._idle: list[tuple[Connection, float]] = []
        self._busy: set[Connection] = set()
        self._doubtful: set[Connection] = set()  # of the busy ones: not to be used again
        self._waiting: deque[asyncio.Future[Connection]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0  # of connections, with those that are being opened or closed
        self._none_left = asyncio.Event()
        self._closed = False
        self._opener: asyncio.TimerHandle | None = None
        self._closer: asyncio.TimerHandle | None = None
        self._waits, self._waits_since = 0, 0.0

    async def use(self, work: Callable[[Connection], Awaitable[Answer]]) -> Answer:
        """Do `work` on a connection that nobody else uses meanwhile."""
        connection = self._warm() or await self._next()
        self._busy.add(connection)
        try:
            answer = await work(connection)
        except BaseException as error:
            self._take_back(connection, error)
            raise
        self._give_back(connection)
        return answer

    def _warm(self) -> Connection | None:
        while self._idle:
            connection, _ = self._idle.pop()
            if not connection.is_closed():
                return connection
            self._drop(connection)
        return None

    async def _next(self) -> Connection:
        """Whichever is free first: a new connection, or one that is given back. Most verbs end
        sooner than a connection is opened, and theirs has its statements prepared already."""
        waiter: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        if self._count == 0 or self._is_crowded():
            self._open_if_room()
        else:
            self._open_later(PATIENCE_SECONDS)
        try:
            async with asyncio.timeout(ACQUIRE_TIMEOUT):
                return await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._give_back(waiter.result())
            raise

    # Opening ---------------------------------------------------------------------------------

    def _is_crowded(self) -> bool:
        """Whether too many verbs have had to wait within this second, this one included."""
        now = time.monotonic()
        if now - self._waits_since > 1.0:
            self._waits, self._waits_since = 0, now
        self._waits += 1
        return self._waits > WAITS_A_SECOND

    def _open_later(self, seconds: float) -> None:
        if self._opener is None:
            loop = asyncio.get_running_loop()
            self._opener = loop.call_later(seconds, self._open_for_patient_verbs)

    def _open_for_patient_verbs(self) -> None:
        """Open one connection at a time, as long as a verb waits and the pool may grow."""
        self._opener = None
        if self._waiter(keep=True) is not None and self._count < self._most:
            self._open_if_room()
            self._open_later(PATIENCE_SECONDS)

    def _open_if_room(self) -> None:
        if self._count < self._most:
            self._count += 1
            self._start(self._open())

    async def _open(self) -> None:
        try:
            connection = await self._connect()
        except BaseException as error:
            self._one_fewer()
            if not isinstance(error, Exception):
                raise
            self._not_opened(error)
        else:
            if not self._handed_on(connection):
                self._idle.insert(0, (connection, time.monotonic()))
                self._close_later()

    def _not_opened(self, error: Exception) -> None:
        """A server without room for one more connection still serves those that are open."""
        if isinstance(error, asyncpg.TooManyConnectionsError) and self._count > 0:
            self._open_later(NO_ROOM_SECONDS)
            return
        if waiter := self._waiter():
            waiter.set_exception(error)
        self._open_for_waiters()

    def _open_for_waiters(self) -> None:
        if self._waiter(keep=True) is not None:
            self._open_if_room()

    def _waiter(self, *, keep: bool = False) -> asyncio.Future[Connection] | None:
        """The verb that has waited longest and still does."""
        while self._waiting:
            if not self._waiting[0].done():
                return self._waiting[0] if keep else self._waiting.popleft()
            self._waiting.popleft()
        return None

    def _handed_on(self, connection: Connection) -> bool:
        """True if a waiting verb got the connection, or the pool is closed and closes it too."""
        if self._closed:
            self._close_soon(connection)
            return True
        if (waiter := self._waiter()) is None:
            return False
        waiter.set_result(connection)
        return True

    # Taking back and closing -----------------------------------------------------------------

    def _take_back(self, connection: Connection, error: BaseException) -> None:
        """A statement that the server refused does no harm to the connection."""
        is_spent = isinstance(error, Exception) and needs_new_connection(error)
        if isinstance(error, asyncpg.PostgresError) and not is_spent:
            self._give_back(connection)
            return
        self._close_soon(connection)
        if is_spent:
            self._doubtful |= self._busy
            idle, self._idle = self._idle, []
            for other, _ in idle:
                self._drop(other)

    def _give_back(self, connection: Connection) -> None:
        is_unusable = connection.is_closed() or connection.is_in_transaction()
        if is_unusable or connection in self._doubtful:
            self._close_soon(connection)
            return
        self._busy.discard(connection)
        if self._handed_on(connection):
            return
        self._idle.append((connection, time.monotonic()))
        self._close_later()

    def _close_later(self) -> None:
        if self._closer is None and self._count > 1:
            self._closer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        """Close connections that were not needed lately, but not the last one."""
        self._closer = None
        long_ago = time.monotonic() - IDLE_SECONDS
        while (len(self._idle) > 1 or self._busy) and self._idle and self._idle[0][1] <= long_ago:
            self._close_soon(self._idle.pop(0)[0])
        self._close_later()

    def _drop(self, connection: Connection) -> None:
        connection.terminate()
        self._one_fewer()

    def _close_soon(self, connection: Connection) -> None:
        """Close a connection in a task of its own, since the server may yet have to hear that a
        statement is cancelled. Until then the connection counts."""
        self._start(self._close_one(connection))

    async def _close_one(self, connection: Connection) -> None:
        try:
            await _close(connection)
        finally:
            self._busy.discard(connection)
            self._doubtful.discard(connection)
            self._one_fewer()
            self._open_for_waiters()

    def _one_fewer(self) -> None:
        self._count -= 1
        if self._closed and self._count == 0:
            self._none_left.set()

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="holdfast-connection")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Close all connections; one that a verb does not give back in time is cut."""
        self._closed = True
        for timer in (self._opener, self._closer):
            if timer is not None:
                timer.cancel()
        while waiter := self._waiter():
            waiter.set_exception(asyncpg.InterfaceError("the store was closed"))
        idle, self._idle = self._idle, []
        for connection, _ in idle:
            self._close_soon(connection)
        if self._count == 0:
            return
        try:
            await asyncio.wait_for(self._none_left.wait(), CLOSE_TIMEOUT)
        except TimeoutError:
            for connection in tuple(self._busy):
                connection.terminate()


async def _close(connection: Connection) -> None:
    try:
        await connection.close(timeout=CLOSE_TIMEOUT)
    except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()
