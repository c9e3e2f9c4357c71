"""Small writes in the caller's own thread, when nothing can make them wait.

Handing a write to the writer's thread and its answer back costs twice what the write itself
does. So a write of a few rows first tries a connection of its own: the write lock is taken if
it is free at this moment, a commit does not sync (WAL at NORMAL or OFF), and the connection
never checkpoints; the writer's thread does that for it now and then. Whatever stands in the
way sends the write to the thread, which waits for locks and names errors. After a slow write
(a slow disk) the thread gets all writes for a while.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.events import logger
from holdfast.store.sqlite.anchor import Anchor
from holdfast.store.sqlite.connection import Connector
from holdfast.store.sqlite.options import Location

UNSYNCED = frozenset({"NORMAL", "OFF"})
CHECKPOINT_PAGES = 1_000
"""Written pages after which a checkpoint is due: roughly as often as SQLite would by itself."""
MOST_PAGES = 16
"""Pages that one write is counted for: rows that are written together share them."""
SLOW_SECONDS = 0.005
REST_FACTOR = 10
"""After a slow write, callers leave all writes to the thread for so many times its duration."""


class InlineWriter:
    """A connection that whoever calls `take` has alone until `give_back`. The writer's thread
    opens it; any thread may use it."""

    def __init__(self, location: Location, connector: Connector) -> None:
        self._fits = location.path is not None and location.synchronous in UNSYNCED
        self._connector = connector
        self._anchor = Anchor(location.path)
        self._lock = threading.Lock()
        self._writer_waiting = False
        self._connection: sqlite3.Connection | None = None
        self._pid = 0
        self._began = 0.0
        self._changes_before = 0
        self._pages = 0
        self._rest_until = 0.0

    def open(self) -> None:
        """Again, if the file was replaced."""
        self.close()
        if self._fits:
            self._connection = self._connector.connect(self._anchor)
            self._connection.execute("PRAGMA wal_autocheckpoint = 0")
            self._pid = os.getpid()

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None and self._pid == os.getpid():
            connection.close()

    def take(self) -> sqlite3.Connection | None:
        """The connection, to be given back; None if the write is for the thread to do."""
        if self._writer_waiting or not self._lock.acquire(blocking=False):
            return None
        try:
            connection = self._connection if self._is_usable() else None
        except BaseException:
            self._lock.release()
            raise
        if connection is None:
            self._lock.release()
            return None
        self._changes_before = connection.total_changes
        return connection

    def _is_usable(self) -> bool:
        self._began = time.monotonic()
        return (
            self._connection is not None
            and self._began >= self._rest_until
            and self._pid == os.getpid()
            and self._anchor.holds()
        )

    def give_back(self) -> bool:
        """True if a checkpoint is due by now."""
        if self._connection is not None:
            changes = self._connection.total_changes - self._changes_before
            self._pages += min(changes, MOST_PAGES)
        took = time.monotonic() - self._began
        if took > SLOW_SECONDS:
            self._rest_until = self._began + took * (1 + REST_FACTOR)
        is_due = self._pages >= CHECKPOINT_PAGES
        if is_due:
            self._pages = 0
        self._lock.release()
        return is_due

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """For the writer's thread: callers stand back while it writes and while it waits for one
        of them, or a busy caller would always be there first."""
        self._writer_waiting = True
        try:
            with self._lock:
                yield
        finally:
            self._writer_waiting = False

    def checkpoint(self, connection: sqlite3.Connection) -> None:
        """In the writer's thread: most of it beside further writes, then what they added with
        callers held off, because only a log that was copied whole is used again."""
        try:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            with self.exclusive():
                connection.execute("PRAGMA wal_checkpoint(FULL)")
        except sqlite3.Error as error:
            # The next one may succeed; what is committed is safe in the log.
            logger.warning("sqlite checkpoint failed: %s", error, extra={"error": str(error)})
