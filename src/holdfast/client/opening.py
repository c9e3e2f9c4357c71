"""The store of an app: opened for its loop, for calls without a loop, or not at all.

`async with app` opens it on the running loop, and everything that the program awaits uses it. A
call without a loop is served by that loop or by a portal (`Portals`), which opens a store of its
own. A write on the caller's own connection needs no open store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from holdfast.client.inserting import Inserter
from holdfast.client.joining import Ambient
from holdfast.client.portal import Call, NewClient, Opened, Pending, Portals, Verb
from holdfast.errors import AlreadyOpen, BadOption, NotOpen, WrongLoop
from holdfast.job import checks

if TYPE_CHECKING:
    from holdfast.client.client import Client
    from holdfast.store.contract.store import Store

T = TypeVar("T")


class OpensStore:
    """The part of an app that opens its store and closes it."""

    def __init__(self, new_store: Callable[[], Store], new_client: NewClient) -> None:
        self.ambient = Ambient()
        self._make_store = new_store
        self._make_client = new_client
        self._opened: Opened | None = None
        self._unopened: Store | None = None
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()
        self._portals = self._new_portals()

    def _new_portals(self) -> Portals:
        return Portals(self._make_store, self._make_client, self.ambient)

    # On a loop ---------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Open the store. Nested uses share the opened store, and the outermost closes it."""
        if self._users == 0:
            self._loop = asyncio.get_running_loop()
            # A lock belongs to its loop, and this may be another loop.
            self._opening = asyncio.Lock()
        self._require_own_loop()
        self._users += 1
        try:
            async with self._opening:
                await self._open()
        except BaseException:
            self._users -= 1
            raise
        return self

    async def _open(self) -> None:
        if self._opened is None:
            store = self._make_store()
            await store.open()
            self._opened = Opened(store, asyncio.get_running_loop(), self._make_client)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._users -= 1
        opened = self._opened
        if self._users == 0 and opened is not None:
            self._opened = None
            await opened.aclose()

    @property
    def is_open(self) -> bool:
        return self._opened is not None

    @property
    def store(self) -> Store:
        return self._own_opened().store

    @property
    def client(self) -> Client:
        return self._own_opened().client

    @property
    def inserter(self) -> Inserter:
        """What inserts jobs into the open store."""
        return self._own_opened().inserter

    def _own_opened(self) -> Opened:
        """What is open, for whoever may use it here."""
        if self._opened is None:
            raise NotOpen
        self._require_own_loop()
        return self._opened

    def _require_own_loop(self) -> None:
        """Refuse use in another event loop: connections belong to the loop that opened them. A
        thread without a loop may take the store or the client, because it can only hand them on
        to the loop."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return
        if running is not self._loop:
            raise WrongLoop.of_another()

    # Without a loop ------------------------------------------------------------------------

    @property
    def unopened_store(self) -> Store:
        """A store for writes on the caller's own connection, which need no connection of ours."""
        if self._opened is not None:
            return self._opened.store
        if self._unopened is None:
            self._unopened = self._make_store()
        return self._unopened

    def run_sync(self, verb: Verb[T]) -> T:
        """Run a coroutine function of the client from a program or a thread without an event
        loop, when one verb of `app.sync` is not enough."""
        return self.begin_sync(verb).wait()

    def begin_sync(self, verb: Verb[T]) -> Pending[T]:
        """Start such a coroutine function; `wait()` of the answer waits for its end."""
        expected = "given a coroutine function, such as lambda client: client.count()"
        checks.function("run_sync", verb, expected)

        def call(opened: Opened) -> Awaitable[T]:
            answer = verb(opened.client)
            if not isinstance(answer, Awaitable):
                raise BadOption("run_sync", expected, f"a function that returned {answer!r}")
            return answer

        return self.begin_call(call)

    def begin_call(self, call: Call[T]) -> Pending[T]:
        """Start a coroutine function of the open store, which may be the portal's own."""
        return self._portals.begin(self._opened, call)

    def close_sync(self) -> None:
        """Close what synchronous calls opened; a later call opens it again."""
        self._portals.close()

    # In tests ----------------------------------------------------------------------------

    @contextmanager
    def _opened_anew(self) -> Iterator[None]:
        """Let what is opened inside the block be another store. What synchronous calls opened there
        is closed with it."""
        if self._users:
            raise AlreadyOpen
        before = self._unopened, self._portals
        self._unopened, self._portals = None, self._new_portals()
        try:
            yield
        finally:
            self.close_sync()
            self._unopened, self._portals = before
