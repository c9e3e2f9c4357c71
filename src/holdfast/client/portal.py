"""An event loop in a thread, for programs that have none of their own.

`enqueue_sync` and `run_sync`, called from a web view or a script, go through a portal. The first
such call starts its thread, and the thread ends with the program.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from holdfast.client.client import Client
from holdfast.errors import WrongLoop
from holdfast.events import Events
from holdfast.store.contract.records import Capability
from holdfast.store.contract.store import Store

T = TypeVar("T")


class Portal:
    """A client with an event loop, a thread and a store of its own, called from other threads.

    `private` is the app's open store, if no URL leads to it and only a sibling can share it.
    """

    def __init__(self, store: Store, events: Events, private: Store | None = None) -> None:
        self.private = private
        self._store = store
        self._events = events
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="holdfast-portal", daemon=True
        )
        self._thread.start()
        try:
            self._client = self._wait_for(self._open())
        except BaseException:
            self._stop_loop()
            raise
        atexit.register(self.close)

    @property
    def usable(self) -> bool:
        """False in a forked child: threads do not survive a fork, so the child needs a portal of
        its own."""
        return self._pid == os.getpid()

    def call(self, verb: Callable[[Client], Awaitable[T]]) -> T:
        """Run one verb on the portal's loop and wait for its answer."""
        if threading.current_thread() is self._thread:
            raise WrongLoop.inside_run_sync()

        async def run() -> T:
            return await verb(self._client)

        return self._wait_for(run())

    def close(self) -> None:
        if self._loop.is_closed() or not self.usable:
            return
        atexit.unregister(self.close)
        try:
            self._wait_for(self._shut())
        finally:
            self._stop_loop()

    async def _open(self) -> Client:
        await self._store.open()
        return Client(self._store, events=self._events)

    async def _shut(self) -> None:
        await self._client.aclose()
        await self._store.close()

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Portals:
    """The portal of one app: opened by the first call, and replaced when it can no longer serve.

    A portal is replaced in a forked child, and when the app opens or closes a store in memory,
    which no second connection can reach by its URL.
    """

    def __init__(self, new_store: Callable[[], Store], events: Events) -> None:
        self._new_store = new_store
        self._events = events
        self._portal: Portal | None = None
        self._lock = threading.Lock()

    def to(self, opened: Store | None) -> Portal:
        """The portal to the store that the app has opened, or to the store of the app's URL."""
        private, stale = _private(opened), None
        with self._lock:
            portal = self._portal
            if portal is None or not portal.usable or portal.private is not private:
                store = (private.sibling() if private else None) or self._new_store()
                stale, portal = portal, Portal(store, self._events, private)
                self._portal = portal
        if stale is not None:
            stale.close()
        return portal

    def close(self) -> None:
        with self._lock:
            portal, self._portal = self._portal, None
        if portal is not None:
            portal.close()


def _private(opened: Store | None) -> Store | None:
    """The opened store, if it cannot be reached by its URL: a store in memory exists once."""
    shared = opened is None or Capability.MANY_PROCESSES in opened.capabilities
    return None if shared else opened
