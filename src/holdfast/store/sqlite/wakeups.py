"""Who is told that something may be worth a look.

Inside one store a commit calls its listeners straight away. Other processes are noticed by
a watcher thread: `PRAGMA data_version` changes when another connection commits, and only
then the small `signal` table is read to say what it was about. The watcher runs only while
somebody listens.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping

from holdfast.errors import StoreError
from holdfast.events import logger
from holdfast.store.contract import Listener, Topic, Wakeup
from holdfast.store.sqlite.scripts import steps

INTERVAL = 0.004
RECONNECT = 1.0

Key = tuple[Topic, str]
_ANY = (Wakeup(Topic.READY), Wakeup(Topic.DUE))
_Subscription = tuple[asyncio.AbstractEventLoop, Listener]


class SqliteWakeups:
    """`connect` is None in memory, where no other process can commit."""

    def __init__(self, connect: Callable[[], sqlite3.Connection] | None) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._subscriptions: list[_Subscription] = []
        self._awaiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._seen: dict[Key, int] = {}
        self._looking = connect is None
        self._watcher: threading.Thread | None = None
        self._stop = threading.Event()

    async def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Returns once the watcher looks, so that nothing committed after it is missed."""
        loop = asyncio.get_running_loop()
        subscription = (loop, listener)
        looking: asyncio.Future[None] = loop.create_future()
        with self._lock:
            self._subscriptions.append(subscription)
            self._awaiting.append((loop, looking))
            self._start_watching()
            if self._looking:
                self._tell_awaiting()
        await looking
        return lambda: self._unsubscribe(subscription)

    def emit_own(self, bumped: Mapping[Key, int]) -> None:
        """Wake after a commit of this store; the watcher need not tell it again."""
        with self._lock:
            for key, n in bumped.items():
                if self._seen.get(key, 0) == n - 1:
                    self._seen[key] = n
        self._emit(Wakeup(topic, name) for topic, name in bumped)

    def stop(self) -> None:
        with self._lock:
            self._subscriptions.clear()
            self._tell_awaiting()
            watcher, self._watcher = self._watcher, None
            self._stop.set()
        if watcher is not None:
            watcher.join()

    def _unsubscribe(self, subscription: _Subscription) -> None:
        with self._lock:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)
            if not self._subscriptions:
                self._stop.set()
                self._watcher = None

    def _tell_awaiting(self) -> None:
        """Called with the lock held."""
        for loop, looking in self._awaiting:
            with contextlib.suppress(RuntimeError):  # its loop is closed: nobody awaits it
                loop.call_soon_threadsafe(_resolve, looking)
        self._awaiting.clear()

    def _start_watching(self) -> None:
        if self._watcher is None and self._connect is not None:
            self._looking = False
            self._stop = threading.Event()
            self._watcher = threading.Thread(
                target=self._watch,
                args=(self._connect, self._stop),
                name="holdfast-sqlite-watcher",
                daemon=True,
            )
            self._watcher.start()

    def _emit(self, wakeups: Iterable[Wakeup]) -> None:
        for wakeup in wakeups:
            for subscription in tuple(self._subscriptions):
                loop, listener = subscription
                try:
                    loop.call_soon_threadsafe(listener, wakeup)
                except RuntimeError:
                    # Its loop was closed without unsubscribing: nobody is left to wake.
                    self._unsubscribe(subscription)

    def _watch(self, connect: Callable[[], sqlite3.Connection], stop: threading.Event) -> None:
        """Follow the file until told to stop; after a failure everything may have been missed."""
        while not stop.is_set():
            try:
                connection = connect()
                try:
                    self._follow(connection, stop)
                finally:
                    connection.close()
            except (sqlite3.Error, StoreError) as error:
                logger.warning("sqlite watcher reconnects", extra={"error": str(error)})
                self._now_looking(stop)
                stop.wait(RECONNECT)
                self._emit(_ANY)

    def _follow(self, connection: sqlite3.Connection, stop: threading.Event) -> None:
        version = connection.execute("PRAGMA data_version").fetchone()
        self._news(connection)
        self._now_looking(stop)
        while not stop.wait(INTERVAL):
            current = connection.execute("PRAGMA data_version").fetchone()
            if current != version:
                version = current
                self._emit(self._news(connection))

    def _now_looking(self, stop: threading.Event) -> None:
        """Also after a failure: who subscribes waits for a look, not for the file to be well."""
        with self._lock:
            if not stop.is_set():
                self._looking = True
                self._tell_awaiting()

    def _news(self, connection: sqlite3.Connection) -> list[Wakeup]:
        found = {
            (Topic(topic), name): n
            for topic, name, n in connection.execute(steps("signal")["read"])
        }
        with self._lock:
            fresh = [key for key, n in found.items() if n > self._seen.get(key, 0)]
            self._seen = found
        return [Wakeup(topic, name) for topic, name in fresh]


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
