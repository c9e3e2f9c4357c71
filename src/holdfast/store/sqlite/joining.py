"""Verbs on jobs in the caller's own transaction, on SQLite.

The verbs are those of the store, run over a `BorrowedWriter`: its transaction is the caller's. They
never wait for a loop, so one way serves all kinds of connections.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

from holdfast.job.loopless import run_without_loop
from holdfast.store.borrowing_sqlite import Lent, run_on
from holdfast.store.contract.joining import Work
from holdfast.store.sqlite.borrowing import borrow, lacks_schema, reading, transaction
from holdfast.store.sqlite.finishing import SqliteFinishing
from holdfast.store.sqlite.inserting import SqliteInserting
from holdfast.store.sqlite.operating import SqliteOperating
from holdfast.store.sqlite.reading import SqliteReading
from holdfast.store.sqlite.schema import migrate
from holdfast.store.sqlite.transaction import Transaction
from holdfast.store.sqlite.writer import Verbs, Writer

T = TypeVar("T")


class SqliteJoining(Verbs):
    """See `holdfast.store.contract.joining.Joining` for what each verb promises."""

    async def within(self, connection: object, work: Work[T]) -> T:
        return await run_on(connection, lambda inner: self.within_sync(inner, work))

    def within_sync(self, connection: object, work: Work[T]) -> T:
        with borrowed_writer(connection, self._writer) as writer:
            return run_without_loop(work(SqliteJobsWithin(writer)))


class SqliteJobsWithin(SqliteInserting, SqliteFinishing, SqliteOperating, SqliteReading):
    """See `holdfast.store.contract.joining.JobsWithin`."""


@contextmanager
def borrowed_writer(connection: object, owner: Writer) -> Iterator[Writer]:
    """A writer for verbs that run in the caller's transaction. It has those two methods of a writer
    that such verbs use."""
    with borrow(connection, owner.location) as lent:
        yield cast("Writer", BorrowedWriter(lent, owner))


class BorrowedWriter:
    """Runs work in the caller's transaction, in place of the store's own writer."""

    def __init__(self, lent: Lent, owner: Writer) -> None:
        self._lent = lent
        self._owner = owner

    async def write(self, work: Callable[[Transaction], T], *, small: bool = False) -> T:
        """The first write to a file makes the tables, as opening the store does. They are made in
        the caller's transaction, which may have locked the file already, and so are rolled back
        with it."""
        with transaction(self._lent, self._owner.now()) as tx:
            try:
                return work(tx)
            except sqlite3.OperationalError as error:
                if self._owner.is_there or not lacks_schema(error):
                    raise
            migrate(tx, self._owner.location.shown)
            return work(tx)

    async def read(self, work: Callable[[Transaction], T]) -> T:
        return work(reading(self._lent, self._owner.now()))
