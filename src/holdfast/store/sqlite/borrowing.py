"""A connection that the caller opened on the store's own file, and its transaction.

Known are `sqlite3.Connection`, aiosqlite's, the Session and Connection of SQLAlchemy and SQLModel
with their async and scoped kinds, and Django's connection. They are recognised by their class's
module, so none of these packages need be installed. The caller commits or rolls back. Other stores
notice the commit as they notice any commit of another connection.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from holdfast.errors import (
    BadOption,
    NotCapable,
    NoTransaction,
    SchemaMissing,
    StoreUnavailable,
)
from holdfast.store.borrowing import is_a, is_of_django, require_atomic, session_of
from holdfast.store.contract.records import Capability
from holdfast.store.sqlite.anchor import Anchor
from holdfast.store.sqlite.options import Location
from holdfast.store.sqlite.transaction import Transaction

T = TypeVar("T")

_EXPECTED = (
    "an open sqlite3.Connection, a SQLAlchemy or SQLModel Session, scoped_session or Connection, "
    "or Django's connection, on SQLite (and for 'enqueue' also their async kinds or aiosqlite's)"
)


async def run_on(connection: Any, work: Callable[[Any], T]) -> T:
    """Run `work` with a connection that needs no loop. A connection of an async kind runs it where
    it runs its own statements: in a greenlet of SQLAlchemy, in the thread of aiosqlite."""
    connection = session_of(connection)
    answer: T
    if _is_from_sqlalchemy(connection) and hasattr(connection, "run_sync"):
        answer = await connection.run_sync(work)
    elif is_a(connection, "aiosqlite", "Connection"):
        answer = await connection._execute(lambda: work(connection._conn))
    else:
        answer = work(connection)
    return answer


@contextmanager
def borrow(connection: Any, location: Location) -> Iterator[Lent]:
    """Use the caller's connection, which has to be open on the store's own file."""
    if location.path is None:
        raise NotCapable("sqlite in memory", Capability.JOIN_TRANSACTION.value)
    lent = _recognise(connection)
    try:
        lent.require_transaction()
        _require_same_file(lent.cursor, location)
        with _named_errors(location):
            yield lent
    finally:
        lent.cursor.close()


class Lent(msgspec.Struct, frozen=True):
    """A cursor of the driver's connection, and the driver itself."""

    cursor: Any
    driver: Any

    def require_transaction(self) -> None:
        """Raise if the driver begins no transaction by itself, and the caller has begun none. Its
        `commit()` would do nothing."""
        driver = self.driver
        alone = driver.isolation_level is None or getattr(driver, "autocommit", None) is True
        if alone and not driver.in_transaction:
            raise NoTransaction.not_begun("BEGIN IMMEDIATE, or Django's transaction.atomic()")

    @contextmanager
    def transaction(self, now: int) -> Iterator[Transaction]:
        """A transaction for a verb. Like any write of the store it leaves word for other processes,
        who hear of it when the caller commits."""
        self._begin()
        tx = Transaction(self.cursor, now)
        yield tx
        tx.close()

    def reading(self, now: int) -> Transaction:
        """For a verb that only reads. It begins nothing, and so leaves no lock behind."""
        return Transaction(self.cursor, now)

    def _begin(self) -> None:
        """Begin the caller's transaction if there is none, as the driver itself would before a
        write. It takes the write lock at once: a transaction that begins by reading may find the
        lock taken later."""
        if not self.driver.in_transaction:
            self.cursor.execute("BEGIN IMMEDIATE")


@contextmanager
def _named_errors(location: Location) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if lacks_schema(error):
            raise SchemaMissing(location.shown) from error
        if "locked" not in str(error):
            raise
        raise StoreUnavailable(
            "the caller's transaction cannot write: another has written since it began, or holds "
            "the file; roll back and try again, and begin it with BEGIN IMMEDIATE"
        ) from error


def lacks_schema(error: sqlite3.OperationalError) -> bool:
    """Whether a statement failed because the file holds no store."""
    return "no such table: holdfast_" in str(error)


def _recognise(connection: Any) -> Lent:
    if is_of_django(connection) and connection.vendor == "sqlite":
        require_atomic(connection)
        connection.ensure_connection()
        connection = connection.connection
    if isinstance(connection, sqlite3.Connection):
        return Lent(connection.cursor(), connection)
    if _is_from_sqlalchemy(connection):
        connection = session_of(connection)
        if hasattr(connection, "get_bind"):
            connection = connection.connection()
        if getattr(getattr(connection, "dialect", None), "name", "") == "sqlite":
            # SQLAlchemy commits only a transaction that a statement of its own has begun.
            connection.exec_driver_sql("PRAGMA database_list").close()
            pooled = connection.connection
            return Lent(pooled.dbapi_connection.cursor(), pooled.driver_connection)
    raise BadOption("connection", _EXPECTED, type(connection).__qualname__)


def _is_from_sqlalchemy(connection: object) -> bool:
    return any(base.__module__.startswith("sqlalchemy.") for base in type(connection).__mro__)


def _require_same_file(cursor: Any, location: Location) -> None:
    if isinstance(cursor, sqlite3.Cursor):
        cursor.row_factory = None  # the caller may have chosen rows of another kind
    cursor.execute("PRAGMA database_list")
    main = next((path for _, name, path in cursor.fetchall() if name == "main"), "")
    ours = location.path
    Anchor(ours).require_file()
    if not main or ours is None or not ours.samefile(main):
        raise BadOption(
            "connection", f"open on {location.shown}, the store's own file", main or "memory"
        )
