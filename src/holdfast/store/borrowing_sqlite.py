"""A caller's connection to a SQLite file, whatever driver it came from, and its transaction.

Known are `sqlite3.Connection`, aiosqlite's, the Session and Connection of SQLAlchemy and SQLModel
with their async and scoped kinds, and Django's connection. They are recognised by their class's
module, so none of these packages need be installed. The caller commits or rolls back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from holdfast.errors import BadOption, NoTransaction
from holdfast.store.borrowing import is_a, is_of_django, require_atomic, session_of

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

    def begin(self) -> None:
        """Begin the caller's transaction if there is none, as the driver itself would before a
        write. It takes the write lock at once: a transaction that begins by reading may find the
        lock taken later."""
        if not self.driver.in_transaction:
            self.cursor.execute("BEGIN IMMEDIATE")


def recognise(connection: Any) -> Lent:
    """Wrap any connection to a SQLite file that is known and needs no loop."""
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
