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
from dataclasses import dataclass
from typing import Generic, TypeVar

from holdfast.client.client import Client
from holdfast.client.joining import Ambient, Joined
from holdfast.errors import NotOpen, WrongLoop
from holdfast.store.contract.records import Capability
from holdfast.store.contract.store import Store

T = TypeVar("T")
Verb = Callable[[Client], Awaitable[T]]

LOOK_SECONDS = 1.0
"""How often a waiting thread checks that the loop that serves its call still runs."""

ENDING_SECONDS = 1.0
"""How long a portal that closes waits for the calls that it cancelled."""


class Pending(Generic[T]):
    """A verb that was handed to the loop of another thread."""

    def __init__(self, verb: Verb[T], client: Client, loop: asyncio.AbstractEventLoop) -> None:
        async def run() -> T:
            return await verb(client)

        self._loop = loop
        work = run()
        try:
            self._future: Future[T] = asyncio.run_coroutine_threadsafe(work, loop)
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


@dataclass(frozen=True, slots=True)
class Opened:
    """The store and the client of an open app, with their loop and their process."""

    store: Store
    client: Client
    loop: asyncio.AbstractEventLoop
    process: int

    @property
    def serves(self) -> bool:
        """Whether the loop can serve calls from other threads. A forked child has only a copy of
        the loop, which nobody runs."""
        return self.process == os.getpid() and self.loop.is_running()


class Portal:
    """A client with an event loop, a thread and a store of its own, called from other threads.

    `private` is the app's open store, if no URL leads to it and only a sibling can share it.
    """

    def __init__(self, client: Client, store: Store, private: Store | None = None) -> None:
        self.private = private
        self._client = client
        self._store = store
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
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

    def begin(self, verb: Verb[T]) -> Pending[T]:
        """Start one verb on the portal's loop."""
        if threading.current_thread() is self._thread:
            raise WrongLoop.inside_run_sync()
        return Pending(verb, self._client, self._loop)

    def close(self) -> None:
        """Close the store and end the thread. A forked child has no such thread."""
        if self._loop.is_closed() or self._process != os.getpid():
            return
        atexit.unregister(self.close)
        try:
            self.begin(self._shut).wait()
        finally:
            self._stop_loop()

    async def _shut(self, client: Client) -> None:
        """Calls that nobody has waited for to their end are cancelled last: the client still writes
        what it took."""
        try:
            await client.aclose()
            await self._store.close()
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
        new_client: Callable[[Store], Client],
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

    def begin(self, opened: Opened | None, verb: Verb[T]) -> Pending[T]:
        """Start one verb where it can be served."""
        if opened is not None and opened.serves and _running_loop() is opened.loop:
            raise WrongLoop.on_its_own_thread()
        if (joined := self._ambient.joined()) is None:
            return self._begin(opened, verb)
        if joined.is_lent:
            raise WrongLoop.inside_run_sync()
        return LentPending(joined, lambda: self._begin(opened, verb))

    def _begin(self, opened: Opened | None, verb: Verb[T]) -> Pending[T]:
        if opened is not None and opened.serves:
            try:
                return Pending(verb, opened.client, opened.loop)
            except RuntimeError:
                pass  # the loop was closed at this moment, and the call has not begun
        return self._to(opened).begin(verb)

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
                stale, portal = portal, Portal(self._new_client(store), store, private)
                self._portal = portal
        if stale is not None:
            stale.close()
        return portal


def _private(opened: Opened | None) -> Store | None:
    """The opened store, if it cannot be reached by its URL: a store in memory exists once."""
    if opened is None or Capability.MANY_PROCESSES in opened.store.capabilities:
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
