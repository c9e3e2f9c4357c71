"""Enqueue inside the caller's own transaction, on a connection the caller opened.

Known are `sqlite3.Connection` and SQLAlchemy's Session, Connection and their async kinds;
they are recognised by their class's module, so SQLAlchemy need not be installed. The
statements are those of `insert`; the caller commits or rolls back. Other stores notice the
commit as they notice any commit of another connection.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.errors import BadOption, NotCapable, StoreUnavailable
from holdfast.store.contract.records import Capability
from holdfast.store.sqlite.anchor import Anchor
from holdfast.store.sqlite.options import Location
from holdfast.store.sqlite.transaction import Transaction

T = TypeVar("T")

_EXPECTED = "an open sqlite3.Connection, or a SQLAlchemy Session or Connection on SQLite"


async def run_on(connection: Any, work: Callable[[Any], T]) -> T:
    """Run `work` with a connection that needs no loop. A connection of SQLAlchemy's async kind
    runs it on its own greenlet."""
    if _is_from_sqlalchemy(connection) and hasattr(connection, "run_sync"):
        answer: T = await connection.run_sync(work)
        return answer
    return work(connection)


@contextmanager
def borrow(connection: Any, location: Location) -> Iterator[Lent]:
    """Use the caller's connection, which has to be open on the store's own file."""
    if location.path is None:
        raise NotCapable("sqlite in memory", Capability.TRANSACTIONAL_ENQUEUE.value)
    lent = _recognise(connection)
    try:
        _require_same_file(lent.cursor, location)
        yield lent
    finally:
        lent.cursor.close()


@dataclass(frozen=True, slots=True)
class Lent:
    """A cursor of the driver's connection, and how the connection stands."""

    cursor: Any
    in_transaction: bool
    autocommit: bool

    @classmethod
    def of(cls, connection: Any, driver: Any) -> Lent:
        autocommit = driver.isolation_level is None or getattr(driver, "autocommit", None) is True
        return cls(connection.cursor(), driver.in_transaction, autocommit)

    @contextmanager
    def transaction(self, now: int) -> Iterator[Transaction]:
        """A transaction for a verb. Like any write of the store it leaves word for other processes,
        who hear of it when the caller commits."""
        with _named_lock(), self._begun():
            tx = Transaction(self.cursor, now)
            yield tx
            tx.bump_counters()

    @contextmanager
    def _begun(self) -> Iterator[None]:
        """The caller's transaction, which is begun if there is none. It takes the write lock at
        once: a transaction that begins by reading may find the lock taken later. A driver in
        autocommit makes every statement a transaction, and `commit()` does nothing there: so
        the enqueue is a transaction of its own."""
        if self.in_transaction:
            yield
            return
        self.cursor.execute("BEGIN IMMEDIATE")
        if not self.autocommit:
            yield
            return
        try:
            yield
        except BaseException:
            self.cursor.execute("ROLLBACK")
            raise
        self.cursor.execute("COMMIT")


@contextmanager
def _named_lock() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
        raise StoreUnavailable(
            "the caller's transaction cannot write: another has written since it began, or holds "
            "the file; roll back and try again, and begin it with BEGIN IMMEDIATE"
        ) from error


def _recognise(connection: Any) -> Lent:
    if isinstance(connection, sqlite3.Connection):
        return Lent.of(connection, connection)
    if _is_from_sqlalchemy(connection):
        if hasattr(connection, "get_bind"):
            connection = connection.connection()
        if getattr(getattr(connection, "dialect", None), "name", "") == "sqlite":
            # SQLAlchemy commits only a transaction that a statement of its own has begun.
            connection.exec_driver_sql("PRAGMA database_list").close()
            pooled = connection.connection
            return Lent.of(pooled.dbapi_connection, pooled.driver_connection)
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
