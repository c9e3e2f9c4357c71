"""Notices from another thread that the worker's event loop does not turn."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable

import msgspec

from holdfast.events import Events
from holdfast.store.contract.store import Store

FRAMES = 12


class Frozen(msgspec.Struct, frozen=True):
    """A loop that was given up. `leaving`: the worker was told to leave and its time was over, so
    no handler is to blame. Otherwise the loop was blocked for too long."""

    seconds: float
    stack: str
    leaving: bool


class Watchdog:
    """Pings the worker's loop. A ping without an answer means a blocked loop. That is reported once
    when it is noticed, with the stack of the loop's thread, and once when the loop turns again. A
    loop that is blocked for `limit` seconds, or still blocked at `leave_by`, is given up."""

    def __init__(
        self,
        watched: asyncio.AbstractEventLoop,
        events: Events,
        *,
        tolerance: float,
        limit: float,
        suspects: Callable[[], list[str]],
        give_up: Callable[[Store, Frozen], Awaitable[None]],
    ) -> None:
        self._watched = watched
        self._thread = threading.get_ident()
        self._events = events
        self._tolerance = tolerance
        self._limit = limit
        self._suspects = suspects
        self._give_up = give_up
        self._pinged: float | None = None
        self._watched_for = 0.0
        self._reported = False
        self.leave_by = math.inf
        self.lag = 0.0
        self.last_turn = time.monotonic()  # when the heartbeat's own loop last turned

    async def watch(self, store: Store) -> None:
        """Runs on the heartbeat's loop, and ends when it has given up the watched one."""
        pause = self._tolerance / 2
        while not self._is_frozen():
            self._ping()
            began = time.monotonic()
            await asyncio.sleep(pause)
            self.last_turn = time.monotonic()
            # While the whole process was stopped, nothing was watched: that time does not count.
            self._watched_for += min(time.monotonic() - began, 2 * pause)
        leaving = self._watched_for <= self._limit
        await self._give_up(store, Frozen(self.blocked_for, self._stack(), leaving))

    @property
    def late_by(self) -> float:
        """Seconds by which the loop turned late when it was last asked, or for which it has not
        answered by now."""
        return max(self.lag, self.blocked_for)

    @property
    def blocked_for(self) -> float:
        return 0.0 if self._pinged is None else time.monotonic() - self._pinged

    def _is_frozen(self) -> bool:
        if self._pinged is None or self._watched_for <= self._tolerance:
            return False
        return self._watched_for > self._limit or time.monotonic() > self.leave_by

    def _ping(self) -> None:
        if self._pinged is None:
            self._watched_for = 0.0
            self._pinged = time.monotonic()
            self._watched.call_soon_threadsafe(self._turned)
        elif self.blocked_for > self._tolerance and not self._reported:
            self._reported = True
            self._events.warning(
                "worker.loop_blocked",
                seconds=round(self.blocked_for, 3),
                running=self._suspects(),
                stack=self._stack(),
            )

    def _turned(self) -> None:
        """Runs on the watched loop."""
        self.lag = self.blocked_for
        self._pinged = None
        if self._reported:
            self._reported = False
            self._events.warning("worker.loop_turns_again", blocked=round(self.lag, 3))

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._thread)
        return "".join(traceback.format_stack(frame)[-FRAMES:]) if frame else ""
