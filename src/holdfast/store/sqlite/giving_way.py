"""Room for other processes between two long writes of this one.

Who finds the database locked sleeps for a moment and tries again. A process that drains a long
line takes the lock again within microseconds of giving it back, so sleepers hardly ever find it
free and wait for seconds. Therefore a process that has slept for a while marks a file beside the
database, and removes the mark when it has had its turn. Whoever finds a mark after a long write
leaves a gap of about one sleep before the next. A mark that is old is one of a process that died.
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
    """Used in the writer's thread, but for `waited`; without a path there is nobody else."""

    def __init__(self, path: Path | None) -> None:
        self._mark = None if path is None else path.with_name(f"{path.name}-waiting")
        self._is_marked = False
        self._free_until = 0.0

    def waited(self) -> None:
        """The lock was found taken again and again. A folder that cannot be written to only
        costs the courtesy of the others."""
        if self._mark is not None:
            self._is_marked = True
            with suppress(OSError):
                self._mark.touch()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Around a write of the writer's thread: begins with the gap that is due to others."""
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
