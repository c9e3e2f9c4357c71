"""`Wakeups` on SQLite: calls listeners when something may be worth a look.

A commit of this store calls its listeners straight away. Commits of other processes are
noticed by a `Watcher`, which runs only while there are listeners. A database in memory needs no
watcher, because no other process can commit to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Set
from pathlib import Path

from holdfast.store.audience import Audience
from holdfast.store.contract.wakeups import USUAL_TOPICS, Listener, Topic, Wakeup
from holdfast.store.sqlite.anchor import Anchor
from holdfast.store.sqlite.transaction import Bump, Key
from holdfast.store.sqlite.watcher import Watcher


class SqliteWakeups:
    def __init__(self, path: Path | None, connect: Callable[[Anchor], sqlite3.Connection]) -> None:
        self._path = path
        self._connect = connect
        self._lock = threading.RLock()
        self._audience = Audience()
        self._loops: dict[Listener, asyncio.AbstractEventLoop] = {}
        self._awaiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._looking = False
        self._watcher: Watcher | None = None
        self._leaving: Watcher | None = None

    async def subscribe(
        self, listener: Listener, topics: Set[Topic] = USUAL_TOPICS
    ) -> Callable[[], None]:
        """Returns once the watcher looks, so that no later commit is missed."""
        loop = asyncio.get_running_loop()
        looking: asyncio.Future[None] = loop.create_future()
        with self._lock:
            self._loops[listener] = loop
            self._audience.add(listener, topics)
            self._awaiting.append((loop, looking))
            if self._path is None or self._looking:
                self._tell_awaiting()
            elif self._watcher is None:
                self._watcher = self._start_watching(self._path)
        await looking
        return lambda: self._unsubscribe(listener)

    def doze(self, listener: Listener, dozes: bool) -> None:
        with self._lock:
            self._audience.doze(listener, dozes)
            if self._watcher is not None:
                self._watcher.doze(self._audience.dozes)

    def emit_own(self, bumped: Mapping[Key, Bump]) -> None:
        """Wake listeners after a commit of this store; the watcher will not tell them again. A
        program that only enqueues has none."""
        if not self._audience:
            return
        watcher = self._watcher
        if watcher is not None:
            bumped = watcher.note(bumped)
        self._emit(Wakeup(*key, jobs) for key, (_, jobs) in bumped.items())

    def tell(self, wakeup: Wakeup) -> None:
        self._emit([wakeup])

    @property
    def hears(self) -> bool:
        """Always: commits of this store wake by themselves, and the watcher sees all others."""
        return True

    def stop(self) -> None:
        with self._lock:
            self._audience.clear()
            self._loops.clear()
            self._stop_watching()
            leaving, self._leaving = self._leaving, None
            self._tell_awaiting()
        if leaving is not None:
            leaving.join()

    def _unsubscribe(self, listener: Listener) -> None:
        """Does not wait for the watcher's thread to end: it may be that thread which calls this,
        because it found a loop closed."""
        with self._lock:
            self._audience.remove(listener)
            self._loops.pop(listener, None)
            if not self._audience:
                self._stop_watching()

    def _start_watching(self, path: Path) -> Watcher:
        watcher = Watcher(path, self._connect, lambda: self._looks(watcher), self._emit)
        watcher.start()
        return watcher

    def _stop_watching(self) -> None:
        if self._watcher is not None:
            self._watcher.stop()
            self._leaving, self._watcher, self._looking = self._watcher, None, False

    def _looks(self, watcher: Watcher) -> None:
        with self._lock:
            if watcher is self._watcher:
                self._looking = True
                self._tell_awaiting()

    def _tell_awaiting(self) -> None:
        for loop, looking in self._awaiting:
            with contextlib.suppress(RuntimeError):  # the caller's loop is closed: nobody awaits it
                loop.call_soon_threadsafe(_resolve, looking)
        self._awaiting.clear()

    def _emit(self, wakeups: Iterable[Wakeup]) -> None:
        """A loop that runs in this very thread is not asleep, and need not be woken."""
        running = asyncio._get_running_loop()
        for wakeup in wakeups:
            for listener in self._audience.of(wakeup):
                loop = self._loops.get(listener)
                if loop is None:
                    continue  # the listener has just unsubscribed
                try:
                    if loop is running:
                        loop.call_soon(listener, wakeup)
                    else:
                        loop.call_soon_threadsafe(listener, wakeup)
                except RuntimeError:
                    # The listener's loop was closed without unsubscribing: nobody is left to wake.
                    self._unsubscribe(listener)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
