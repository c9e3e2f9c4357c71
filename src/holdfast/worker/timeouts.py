"""One timer for all attempts that may run only so long.

A timer per job would cost more than a small job itself. With one timer, starting an attempt
costs a comparison: the timer is set for the first attempt that can be overdue, and when it
fires, all running attempts are checked once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from holdfast.worker.attempt import NEVER, Attempt


class Timeouts:
    """Calls `overdue` once with each attempt of `running` that has used up its time."""

    def __init__(self, running: Collection[Attempt], overdue: Callable[[Attempt], None]) -> None:
        self._running = running
        self._overdue = overdue
        self._loop = asyncio.get_running_loop()
        self._at = NEVER
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, ends_by: float) -> None:
        """Make sure that the attempts are checked at this time of the loop's clock."""
        if ends_by < self._at:
            self.stop()
            self._at = ends_by
            self._timer = self._loop.call_at(ends_by, self._check)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._at = None, NEVER

    def _check(self) -> None:
        self._timer, self._at = None, NEVER
        now, soonest = self._loop.time(), NEVER
        for attempt in tuple(self._running):
            if attempt.ends_by > now:
                soonest = min(soonest, attempt.ends_by)
            else:
                attempt.ends_by = NEVER  # it is told once
                self._overdue(attempt)
        if soonest != NEVER:
            self.watch(soonest)
