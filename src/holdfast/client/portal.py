"""Calls from programs and threads that have no event loop.

`enqueue_sync`, `result_sync` and the verbs of `app.sync` run on an event loop in another thread. If
the app is open and its loop runs in another thread, that loop serves the call, with its store and
its pool. Otherwise a *portal* serves it: a loop in a thread of its own, with a store of its own.
The first such call starts the portal, and it ends with the program.
"""

from __future__ import annotations

import asyncio
import atexit
import math
import os
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Generic, TypeVar

from holdfast.client.inserting import Inserter
from holdfast.client.joining import Ambient, Joined
from holdfast.errors import NotOpen, WrongLoop

if TYPE_CHECKING:
    from holdfast.client.client import Client
    from holdfast.store.contract.store import Store

T = TypeVar("T")
Verb = Callable[["Client"], Awaitable[T]]
Call = Callable[["Opened"], Awaitable[T]]
NewClient = Callable[["Store", Inserter], "Client"]

LOOK_SECONDS = 1.0
"""How often a waiting thread checks that the loop that serves its call still runs."""

ENDING_SECONDS = 1.0
"""How long a portal that closes waits for the calls that it cancelled."""


class Pending(Generic[T]):
    """A call that was handed to the loop of another thread."""

    def __init__(self, call: Call[T], opened: Opened) -> None:
        async def run() -> T:
            return await call(opened)

        self._loop = opened.loop
        work = run()
        try:
            self._future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop is closed
            work.close()
            raise

    def wait(self, patience: float | None = None) -> T:
        """The answer of the verb. Raises `TimeoutError` after `patience` seconds, also if the loop
        is blocked. Whoever stops waiting, by Ctrl-C too, cancels the verb."""
        until = math.inf if patience is None else time.monotonic() + patience
        try:
            while not self._done_within(min(LOOK_SECONDS, until - time.monotonic())):
                if not self._loop.is_running():
                    raise NotOpen.meanwhile()
                if time.monotonic() >= until:
                    raise TimeoutError
            return self._future.result()
        except CancelledError:
            raise NotOpen.meanwhile() from None
        finally:
            if not self._loop.is_closed():
                self._future.cancel()

    def _done_within(self, seconds: float) -> bool:
        try:
            self._future.exception(max(0.0, seconds))
        except TimeoutError:
            return self._future.done()
        return True


class LentPending(Pending[T]):
    """A verb that joins the caller's transaction. It starts when it is waited for: meanwhile the
    waiting thread runs what the verb does on the caller's connection, which may belong to it."""

    def __init__(self, joined: Joined, begin: Callable[[], Pending[T]]) -> None:
        self._joined = joined
        self._begin = begin

    def wait(self, patience: float | None = None) -> T:
        return self._joined.lend_to(lambda: self._begin().wait(patience))


class Opened:
    """An open store with its loop and its process: what inserts jobs there, and the client with
    all other verbs. A program that only enqueues never needs the client and never imports it."""

    def __init__(
        self, store: Store, loop: asyncio.AbstractEventLoop, new_client: NewClient
    ) -> None:
        self.store = store
        self.loop = loop
        self.process = os.getpid()
        self.inserter = Inserter(store.jobs)
        self._new_client = new_client
        self._clients: list[Client] = []

    @property
    def client(self) -> Client:
        if not self._clients:
            # Two threads may both make one. All callers get the first that was appended.
            self._clients.append(self._new_client(self.store, self.inserter))
        return self._clients[0]

    async def aclose(self) -> None:
        await self.inserter.aclose()
        for client in self._clients[:1]:
            await client.aclose()
        await self.store.close()

    @property
    def serves(self) -> bool:
        """Whether the loop can serve calls from other threads. A forked child has only a copy of
        the loop, which nobody runs."""
        return self.process == os.getpid() and self.loop.is_running()


class Portal:
    """An open store with an event loop and a thread of its own, called from other threads.

    `private` is the app's open store, if no URL leads to it and only a sibling can share it.
    """

    def __init__(self, store: Store, new_client: NewClient, private: Store | None = None) -> None:
        self.private = private
        self._loop = asyncio.new_event_loop()
        self._opened = Opened(store, self._loop, new_client)
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="holdfast-portal", daemon=True
        )
        self._thread.start()
        try:
            self.begin(lambda _: store.open()).wait()
        except BaseException:
            self._stop_loop()
            raise
        atexit.register(self.close)

    def begin(self, call: Call[T]) -> Pending[T]:
        """Start one call on the portal's loop."""
        if threading.current_thread() is self._thread:
            raise WrongLoop.inside_run_sync()
        return Pending(call, self._opened)

    def close(self) -> None:
        """Close the store and end the thread. A forked child has no such thread."""
        if self._loop.is_closed() or self._opened.process != os.getpid():
            return
        atexit.unregister(self.close)
        try:
            self.begin(self._shut).wait()
        finally:
            self._stop_loop()

    async def _shut(self, opened: Opened) -> None:
        """Calls that nobody has waited for to their end are cancelled last: the store still gets
        what was taken."""
        try:
            await opened.aclose()
        finally:
            calls = asyncio.all_tasks() - {asyncio.current_task()}
            for call in calls:
                call.cancel()
            if calls:
                await asyncio.wait(calls, timeout=ENDING_SECONDS)

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Portals:
    """Chooses who serves a call: the loop of the open app, or the portal.

    The portal is opened by the first call that needs it. It is replaced when the app opens or
    closes a store in memory, which no second connection can reach by its URL. A forked child
    begins without one.
    """

    def __init__(
        self,
        new_store: Callable[[], Store],
        new_client: NewClient,
        ambient: Ambient,
    ) -> None:
        self._new_store = new_store
        self._new_client = new_client
        self._ambient = ambient
        self.forget()
        _all.add(self)

    def forget(self) -> None:
        """Called in a forked child: the portal's thread and who held the lock are not there."""
        self._portal: Portal | None = None
        self._lock = threading.Lock()

    def begin(self, opened: Opened | None, call: Call[T]) -> Pending[T]:
        """Start one call where it can be served."""
        if opened is not None and opened.serves and _running_loop() is opened.loop:
            raise WrongLoop.on_its_own_thread()
        if (joined := self._ambient.joined()) is None:
            return self._begin(opened, call)
        if joined.is_lent:
            raise WrongLoop.inside_run_sync()
        return LentPending(joined, lambda: self._begin(opened, call))

    def _begin(self, opened: Opened | None, call: Call[T]) -> Pending[T]:
        if opened is not None and opened.serves:
            try:
                return Pending(call, opened)
            except RuntimeError:
                pass  # the loop was closed at this moment, and the call has not begun
        return self._to(opened).begin(call)

    def close(self) -> None:
        with self._lock:
            portal, self._portal = self._portal, None
        if portal is not None:
            portal.close()

    def _to(self, opened: Opened | None) -> Portal:
        """The portal to the store that the app has opened, or to the store of the app's URL."""
        private, stale = _private(opened), None
        with self._lock:
            portal = self._portal
            if portal is None or portal.private is not private:
                store = (private.sibling() if private else None) or self._new_store()
                stale, portal = portal, Portal(store, self._new_client, private)
                self._portal = portal
        if stale is not None:
            stale.close()
        return portal


def _private(opened: Opened | None) -> Store | None:
    """The opened store, if it cannot be reached by its URL: a store in memory exists once."""
    if opened is None:
        return None
    from holdfast.store.contract.records import Capability

    if Capability.MANY_PROCESSES in opened.store.capabilities:
        return None
    return opened.store


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


# Forks --------------------------------------------------------------------------------------

_all: weakref.WeakSet[Portals] = weakref.WeakSet()


def _forget_all() -> None:
    for portals in _all:
        portals.forget()


os.register_at_fork(after_in_child=_forget_all)
