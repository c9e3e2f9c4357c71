"""Notices from another thread that the worker's event loop does not turn."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable

from holdfast.events import Events

FRAMES = 12


class Watchdog:
    """Pings the worker's loop. A ping that stays unanswered is a blocked loop: reported once
    when it is noticed, with what the loop's thread is doing, and once when it turns again."""

    def __init__(
        self,
        watched: asyncio.AbstractEventLoop,
        events: Events,
        *,
        tolerance: float,
        suspects: Callable[[], list[str]],
    ) -> None:
        self._watched = watched
        self._thread = threading.get_ident()
        self._events = events
        self._tolerance = tolerance
        self._suspects = suspects
        self._pinged: float | None = None
        self._reported = False
        self.lag = 0.0

    async def watch(self) -> None:
        """Runs on the heartbeat's loop."""
        while True:
            self._look()
            await asyncio.sleep(self._tolerance / 2)

    @property
    def blocked_for(self) -> float:
        return 0.0 if self._pinged is None else time.monotonic() - self._pinged

    def _look(self) -> None:
        if self._pinged is None:
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
