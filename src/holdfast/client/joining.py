"""The ambient transaction: inside `app.within(connection)` verbs on jobs join it.

A context variable holds the innermost block. Tasks and threads that are started inside a block
inherit the variable, so they join too. They may outlive the block; then its transaction is over,
and what they enqueue would be lost or written elsewhere. So a block that ended says so, and a verb
that finds an ended block raises `NoTransaction`.

A verb without a loop (`run_sync`) runs on the loop of another thread, but a connection may belong
to its thread. So `Joined.lend_to` lets the calling thread wait, and run there what the verb does on
the connection.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar, Token, copy_context
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from holdfast.errors import NoTransaction

if TYPE_CHECKING:
    from holdfast.store.contract.jobs import Jobs
    from holdfast.store.contract.joining import Joining, Work

T = TypeVar("T")


class Joined:
    """A connection that verbs join, for as long as its block lasts. `connection` is None in a
    block that opts out of the blocks around it."""

    def __init__(self, owner: Ambient, connection: object, outer: Joined | None) -> None:
        self.owner = owner
        self.outer = outer
        self._connection = connection
        self._ended = False
        self._home: _Home | None = None

    @property
    def connection(self) -> object:
        if self._ended:
            raise NoTransaction.block_ended()
        return self._connection

    @property
    def is_lent(self) -> bool:
        """Whether a verb has it that serves a synchronous call, which waits elsewhere."""
        return self._home is not None

    def end(self) -> None:
        """Forget the connection too: a task that outlives the block must not keep it alive."""
        self._ended, self._connection = True, None

    async def run(self, jobs: Joining, work: Work[T]) -> T:
        """Run verbs on jobs in the transaction that is joined."""
        connection, home = self.connection, self._home
        if home is None:
            return await jobs.within(connection, work)
        return await home.run(lambda: jobs.within_sync(connection, work))

    def lend_to(self, call: Callable[[], T]) -> T:
        """Call a function that waits for a verb in another thread, and run here what the verb
        does on the connection."""
        lent = Joined(self.owner, self.connection, self.outer)
        lent._home = home = _Home()
        try:
            return home.serve(lent, call)
        finally:
            lent.end()


WITHIN: ContextVar[Joined | None] = ContextVar("holdfast-within", default=None)
"""The innermost block, of whichever app. It is None in nearly every program, so look here first."""


class Ambient:
    """The blocks of one app. Two apps have two stores, and a block of one means nothing to the
    other."""

    def within(self, connection: object) -> WithinBlock:
        return WithinBlock(self, connection)

    def joined(self) -> Joined | None:
        """The innermost block of this app, or None if the verbs of the app join nothing."""
        block = WITHIN.get()
        while block is not None and block.owner is not self:
            block = block.outer
        return None if block is None or block.connection is None else block

    async def run(self, jobs: Jobs, work: Work[T]) -> T:
        """Run verbs on jobs: in the transaction that is joined, or else on the store's own
        connections."""
        joined = None if WITHIN.get() is None else self.joined()
        return await (work(jobs) if joined is None else joined.run(jobs, work))


class WithinBlock:
    """What `app.within(connection)` answers: a context manager, for `with` and `async with`. It
    commits nothing and rolls nothing back."""

    def __init__(self, owner: Ambient, connection: object) -> None:
        self._owner = owner
        self._connection = connection
        self._joined: Joined | None = None
        self._token: Token[Joined | None] | None = None

    def __enter__(self) -> None:
        self._joined = Joined(self._owner, self._connection, WITHIN.get())
        self._token = WITHIN.set(self._joined)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        joined, token = self._joined, self._token
        assert joined is not None
        assert token is not None
        self._joined = self._token = None
        joined.end()
        with suppress(ValueError):  # left in another context than it was entered in, as fixtures do
            WITHIN.reset(token)

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)


class _Home:
    """The thread of a connection, while it waits for a verb that runs on another thread's loop."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def serve(self, joined: Joined, call: Callable[[], T]) -> T:
        """Call the function in a thread of its own, and run here whatever it sends home."""
        context, answer = copy_context(), Future[T]()
        context.run(WITHIN.set, joined)

        def run() -> None:
            _settle(answer, lambda: context.run(call))
            self._work.put(None)

        threading.Thread(target=run, name="holdfast-lent", daemon=True).start()
        while (work := self._work.get()) is not None:
            work()
        return answer.result()

    async def run(self, work: Callable[[], T]) -> T:
        """Have this run in the thread of the connection; called on the loop of another."""
        answer = Future[T]()
        self._work.put(lambda: _settle(answer, work))
        return await asyncio.wrap_future(answer)


def _settle(answer: Future[T], work: Callable[[], T]) -> None:
    try:
        answer.set_result(work())
    except BaseException as error:  # noqa: BLE001 - raised where the answer is awaited
        answer.set_exception(error)
