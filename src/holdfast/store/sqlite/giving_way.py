"""Room for other processes between two long writes of this one.

A process that finds the database locked sleeps for a moment and tries again. A process that drains
a long line takes the lock again within microseconds of giving it back, so the sleeping process
hardly ever finds it free and waits for seconds. Therefore a process that has waited for a while
touches a file beside the database (the mark), and removes it when it has had its turn. A process
that finds a mark after a long write leaves a gap of about one sleep before its next write. An old
mark was left by a process that died, and is ignored.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LONG_SECONDS = 0.002
GAP_SECONDS = 0.004
FRESH_SECONDS = 1.0


class GivingWay:
    """The mark of one opened store. Used in the writer's thread, but for `waited`. A database in
    memory has no other process to give way to, and no mark."""

    def __init__(self, path: Path | None) -> None:
        self._mark = None if path is None else path.with_name(f"{path.name}-waiting")
        self._is_marked = False
        self._free_until = 0.0

    def waited(self) -> None:
        """Set the mark: the lock was found taken again and again. In a folder that cannot be
        written to there is no mark, and other processes leave no gap."""
        if self._mark is not None:
            self._is_marked = True
            with suppress(OSError):
                self._mark.touch()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Around a write of the writer's thread. Begins with the gap, if one is due."""
        gap = self._free_until - time.monotonic()
        if gap > 0:
            time.sleep(gap)
        began = time.monotonic()
        try:
            yield
        finally:
            self._unmark()
            now = time.monotonic()
            if now - began > LONG_SECONDS and self._somebody_waits():
                self._free_until = now + GAP_SECONDS

    def _unmark(self) -> None:
        """Other processes that wait set the mark again at their next try."""
        if self._mark is not None and self._is_marked:
            self._is_marked = False
            with suppress(OSError):
                self._mark.unlink(missing_ok=True)

    def _somebody_waits(self) -> bool:
        if self._mark is None:
            return False
        try:
            return time.time() - self._mark.stat().st_mtime < FRESH_SECONDS
        except OSError:
            return False
