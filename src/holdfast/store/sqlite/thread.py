"""One thread that owns one connection and runs the work it is given, in order.

Callers are coroutines of any loop, also of several loops at once (the heartbeat has a loop of its
own). Each hands over a function of the connection and awaits a future of its own loop. If a caller
stops waiting, its work is done all the same; the verbs are idempotent or guarded.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, TypeVar

from holdfast.errors import StoreError
from holdfast.store.sqlite.anchor import Anchor

T = TypeVar("T")
P = ParamSpec("P")
_Caller = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]"]
_Item = tuple[Callable[..., Any], tuple[Any, ...], _Caller | None]


class ConnectionThread:
    """The thread runs from `start` to `stop`; both may be called twice."""

    def __init__(
        self, name: str, connect: Callable[[Anchor], sqlite3.Connection], anchor: Anchor
    ) -> None:
        self._name = name
        self._connect = connect
        self._anchor = anchor
        self._inbox: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pid = 0

    def start(self) -> None:
        """The thread is a daemon: a program that forgets to close its store still exits."""
        if self._thread is None:
            self._inbox = queue.SimpleQueue()
            self._pid = os.getpid()
            self._thread = threading.Thread(
                target=self._serve, args=(self._inbox,), name=self._name, daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """Do the work that was handed over, close the connection, end the thread."""
        thread, self._thread = self._thread, None
        if thread is None or self._pid != os.getpid():
            return
        self._inbox.put(None)
        thread.join()

    async def run(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **_: P.kwargs
    ) -> T:
        """Call `work` with the connection and these arguments, in the thread."""
        if self._thread is None:
            raise StoreError(f"{self._name} is not open: call open() before using the store")
        if self._pid != os.getpid():
            raise StoreError(
                f"{self._name} was opened before a fork: open a store of its own in the child"
            )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._inbox.put((work, args, (loop, future)))
        return await future

    def post(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """For work that nobody waits for and that handles its own errors."""
        self._inbox.put((work, (), None))

    def _serve(self, inbox: queue.SimpleQueue[_Item | None]) -> None:
        connection: sqlite3.Connection | None = None
        while (item := inbox.get()) is not None:
            work, args, caller = item
            try:
                if connection is not None and not self._anchor.holds():
                    _close(connection)
                    connection = None
                if connection is None:
                    connection = self._connect(self._anchor)
                answer = work(connection, *args)
            except BaseException as error:  # noqa: BLE001 - handed to the caller, who awaits it
                _tell(caller, _fail, error)
            else:
                _tell(caller, _answer, answer)
                del answer
            # Nothing of this item may live on while the thread waits for the next.
            del item, work, args, caller
        if connection is not None:
            connection.close()


def _close(connection: sqlite3.Connection) -> None:
    """Close a connection whose file was replaced; errors of closing no longer matter."""
    with suppress(sqlite3.Error):
        connection.close()


def _tell(
    caller: _Caller | None, how: Callable[[asyncio.Future[Any], Any], None], what: object
) -> None:
    if caller is None:
        return
    loop, future = caller
    try:
        loop.call_soon_threadsafe(how, future, what)
    except RuntimeError:
        # The caller's loop is closed, so nobody is waiting; anything else is a defect.
        if not loop.is_closed():
            raise


def _answer(future: asyncio.Future[Any], answer: object) -> None:
    if not future.done():
        future.set_result(answer)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
