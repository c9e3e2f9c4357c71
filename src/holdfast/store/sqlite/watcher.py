"""The thread that notices the commits of other processes.

`PRAGMA data_version` changes when another connection has committed; only then the small table
of counters is read, and a counter that has grown says what the commit was about. The store notes
the counters of its own commits (`note`), so that its listeners hear of them once.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.errors import StoreError, StoreUnavailable
from holdfast.events import logger
from holdfast.store.contract.wakeups import Topic, Wakeup
from holdfast.store.sqlite.anchor import Anchor
from holdfast.store.sqlite.changes import Changes, changes_of
from holdfast.store.sqlite.scripts import script
from holdfast.store.sqlite.transaction import Bump, Key

RECONNECT_SECONDS = 1.0

ANY = [Wakeup(topic) for topic in (Topic.READY, Topic.DUE, Topic.SCHEDULES, Topic.STREAMS)]


class Watcher:
    """Calls `on_look` once it has begun to look, and `on_news` with what it sees; both in its own
    thread."""

    def __init__(
        self,
        path: Path,
        connect: Callable[[Anchor], sqlite3.Connection],
        on_look: Callable[[], None],
        on_news: Callable[[list[Wakeup]], None],
    ) -> None:
        self._path = path
        self._connect = connect
        self._on_look = on_look
        self._on_news = on_news
        self._lock = threading.Lock()
        self._seen: dict[Key, int] = {}
        self._told: dict[Key, int] = {}
        self._stop = threading.Event()
        self._changes: Changes | None = None
        self._dozes = False
        self._problem: str | None = None
        self._thread = threading.Thread(
            target=self._watch, name="holdfast-sqlite-watcher", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns at once; `join` waits for the end."""
        self._stop.set()
        changes = self._changes
        if changes is not None:
            changes.stop()

    def doze(self, dozes: bool) -> None:
        """Whether a look every second is enough from now on."""
        self._dozes = dozes
        changes = self._changes
        if changes is not None:
            changes.doze(dozes)

    def join(self) -> None:
        self._thread.join()

    def note(self, bumped: Mapping[Key, Bump]) -> dict[Key, Bump]:
        """The caller tells the listeners of these commits. Returns those that this watcher has
        not told them of already: it may see a commit before its own store does."""
        with self._lock:
            for key, (n, jobs) in bumped.items():
                if self._seen.get(key, 0) == n - jobs:
                    self._seen[key] = n
            return {key: bump for key, bump in bumped.items() if self._told.get(key, 0) < bump[0]}

    def _watch(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except (sqlite3.Error, StoreError, OSError) as error:
                self._say_once(str(error))
                self._on_look()
                self._stop.wait(RECONNECT_SECONDS)

    def _say_once(self, problem: str) -> None:
        """Log a problem once, however often the watcher meets it again."""
        if problem != self._problem:
            self._problem = problem
            logger.warning("sqlite watcher reconnects: %s", problem, extra={"error": problem})

    def _follow(self) -> None:
        anchor = Anchor(self._path)
        self._told = {}  # another file counts from the beginning
        connection = self._connect(anchor)
        try:
            version = connection.execute("PRAGMA data_version").fetchone()
            self._news(connection)
            changes = self._changes = changes_of(self._path)
            changes.doze(self._dozes)
            try:
                self._on_look()
                if self._problem is not None:
                    self._problem = None
                    self._on_news(ANY)  # nobody knows what was committed meanwhile
                self._look(connection, anchor, changes, version)
            finally:
                changes.close()
        finally:
            connection.close()

    def _look(
        self, connection: sqlite3.Connection, anchor: Anchor, changes: Changes, version: object
    ) -> None:
        stirred = False
        while not self._stop.is_set():
            if not anchor.holds():
                raise StoreUnavailable(f"{self._path} was replaced by another file")
            current = connection.execute("PRAGMA data_version").fetchone()
            stirred, version = current != version, current
            if stirred and (news := self._news(connection)):
                with self._lock:
                    self._told = dict(self._seen)
                self._on_news(news)
            changes.pause(stirred)

    def _news(self, connection: sqlite3.Connection) -> list[Wakeup]:
        rows = connection.execute(script("wakeups/subscribe")).fetchall()
        found = {(Topic(topic), name): n for topic, name, n in rows}
        with self._lock:
            before, self._seen = self._seen, found
        grown = [(key, n - before.get(key, 0)) for key, n in found.items()]
        return [Wakeup(*key, jobs) for key, jobs in grown if jobs > 0]
