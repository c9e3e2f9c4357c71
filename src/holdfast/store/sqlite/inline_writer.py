"""Small writes in the caller's own thread, when nothing can make them wait.

Handing a write to the writer's thread and its answer back costs twice what the write itself
does. So a write of a few rows first tries a connection of its own: the write lock is taken if
it is free at this moment, a commit does not sync (WAL at NORMAL or OFF), and the connection
never checkpoints; the writer's thread does that for it now and then. Whatever stands in the
way sends the write to the thread, which has the patience and names errors. If the disk turns
out to be slow, the thread has all of them for a while.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from holdfast.events import logger
from holdfast.store.sqlite.anchor import Anchor
from holdfast.store.sqlite.options import Location
from holdfast.store.sqlite.transaction import OF_THE_ROW

T = TypeVar("T")

UNSYNCED = frozenset({"NORMAL", "OFF"})
TIDY_EVERY = 1_000  # pages, roughly: as often as SQLite would by itself
MOST_PAGES = 16  # that one write is counted for: rows that are written together share them
LONG, REST = 0.005, 10  # seconds; after a long write, so many times its duration


class InlineWriter:
    """Opened in the writer's thread, used from any; one write at a time."""

    def __init__(self, location: Location) -> None:
        self._fits = location.path is not None and location.synchronous in UNSYNCED
        self._anchor = Anchor(location.path)
        self._lock = threading.Lock()
        self._barred = False
        self._connection: sqlite3.Connection | None = None
        self._pid = 0
        self._untidy = 0
        self._rest_until = 0.0

    def open(self, connect: Callable[[Anchor], sqlite3.Connection]) -> None:
        """Again, if the file was replaced."""
        self.close()
        if self._fits:
            self._connection = connect(self._anchor)
            self._connection.execute("PRAGMA wal_autocheckpoint = 0")
            self._pid = os.getpid()

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None and self._pid == os.getpid():
            connection.close()

    def attempt(self, write: Callable[[sqlite3.Connection], T]) -> T | None:
        """None if it is for the writer's thread to do; nothing has been written then."""
        if self._barred or not self._lock.acquire(blocking=False):
            return None
        try:
            began = time.monotonic()
            if self._connection is None or began < self._rest_until or self._pid != os.getpid():
                return None
            if not self._anchor.holds():
                return None
            before = self._connection.total_changes
            answer = write(self._connection)
            self._untidy += min(self._connection.total_changes - before, MOST_PAGES)
            self._rest_after(time.monotonic() - began)
            return answer
        except (sqlite3.Error, *OF_THE_ROW):
            # Rolled back. The thread waits for a lock, and says what else is wrong.
            return None
        finally:
            self._lock.release()

    def _rest_after(self, took: float) -> None:
        if took > LONG:
            self._rest_until = time.monotonic() + took * REST

    def alone(self, work: Callable[[], T]) -> T:
        """For the writer's thread: callers stand back while it works and while it waits for one
        of them, or a busy caller would always be there first."""
        self._barred = True
        try:
            with self._lock:
                return work()
        finally:
            self._barred = False

    def is_untidy(self) -> bool:
        """True once for every `TIDY_EVERY` pages written."""
        if self._untidy < TIDY_EVERY:
            return False
        self._untidy = 0
        return True

    def tidy(self, connection: sqlite3.Connection) -> None:
        """Checkpoint, in the writer's thread: most of it beside further writes, then what they
        added with them held off, because only a log that was copied whole is used again."""
        try:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            self.alone(lambda: connection.execute("PRAGMA wal_checkpoint(FULL)"))
        except sqlite3.Error as error:
            # The next one may succeed; what is committed is safe in the log.
            logger.warning("sqlite checkpoint failed: %s", error, extra={"error": str(error)})
