"""Enqueue inside the caller's own transaction, on a connection the caller opened.

Known are `sqlite3.Connection` and SQLAlchemy's Session, Connection and their async kinds;
they are recognised by their class's module, so SQLAlchemy need not be installed. The
statements are those of `insert`; the caller commits or rolls back. Other stores notice the
commit as they notice any commit of another connection.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from holdfast.errors import BadOption, NotCapable, StoreUnavailable
from holdfast.job.record import Inserted, NewJob
from holdfast.store.contract.records import Capability
from holdfast.store.sqlite.anchor import Anchor
from holdfast.store.sqlite.engine import Engine, bump
from holdfast.store.sqlite.inserting import insert
from holdfast.store.sqlite.transaction import Transaction

_EXPECTED = "an open sqlite3.Connection, or a SQLAlchemy Session or Connection on SQLite"


async def insert_within(engine: Engine, connection: Any, jobs: Sequence[NewJob]) -> list[Inserted]:
    """A connection of SQLAlchemy's async kind runs the same code on its own greenlet."""
    if _is_from_sqlalchemy(connection) and hasattr(connection, "run_sync"):
        answers: list[Inserted] = await connection.run_sync(
            lambda inner: insert_within_sync(engine, inner, jobs)
        )
        return answers
    return insert_within_sync(engine, connection, jobs)


def insert_within_sync(engine: Engine, connection: Any, jobs: Sequence[NewJob]) -> list[Inserted]:
    if engine.location.path is None:
        raise NotCapable("sqlite in memory", Capability.TRANSACTIONAL_ENQUEUE.value)
    lent = _recognise(connection)
    cursor = lent.connection.cursor()
    try:
        _require_same_file(cursor, engine)
        if not jobs:
            return []
        with _named_lock(), _transaction(lent, cursor):
            return _insert(Transaction(cursor, engine.now()), jobs)
    finally:
        cursor.close()


def _insert(tx: Transaction, jobs: Sequence[NewJob]) -> list[Inserted]:
    answers = insert(tx, jobs)
    bump(tx)
    return answers


@contextmanager
def _transaction(lent: Lent, cursor: Any) -> Iterator[None]:
    """The caller's, which is begun if there is none. It takes the write lock at once: one that
    begins by reading may lose its turn. A driver in autocommit makes every statement a
    transaction, and `commit()` does nothing there: so the enqueue is a transaction too."""
    if lent.in_transaction:
        yield
        return
    cursor.execute("BEGIN IMMEDIATE")
    if not lent.autocommit:
        yield
        return
    try:
        yield
    except BaseException:
        cursor.execute("ROLLBACK")
        raise
    cursor.execute("COMMIT")


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


@dataclass(frozen=True, slots=True)
class Lent:
    """The driver's connection that makes cursors, and how it stands."""

    connection: Any
    in_transaction: bool
    autocommit: bool

    @classmethod
    def of(cls, connection: Any, driver: Any) -> Lent:
        autocommit = driver.isolation_level is None or getattr(driver, "autocommit", None) is True
        return cls(connection, driver.in_transaction, autocommit)


def _recognise(connection: Any) -> Lent:
    if isinstance(connection, sqlite3.Connection):
        return Lent.of(connection, connection)
    if _is_from_sqlalchemy(connection):
        if hasattr(connection, "get_bind"):
            connection = connection.connection()
        if getattr(getattr(connection, "dialect", None), "name", "") == "sqlite":
            # A statement of its own makes SQLAlchemy begin: only then its commit() commits.
            connection.exec_driver_sql("PRAGMA database_list").close()
            pooled = connection.connection
            return Lent.of(pooled.dbapi_connection, pooled.driver_connection)
    raise BadOption("connection", _EXPECTED, type(connection).__qualname__)


def _is_from_sqlalchemy(connection: object) -> bool:
    return any(base.__module__.startswith("sqlalchemy.") for base in type(connection).__mro__)


def _require_same_file(cursor: Any, engine: Engine) -> None:
    if isinstance(cursor, sqlite3.Cursor):
        cursor.row_factory = None  # positions are what is read, whatever the caller chose
    cursor.execute("PRAGMA database_list")
    main = next((row[2] for row in cursor.fetchall() if row[1] == "main"), "")
    ours = engine.location.path
    Anchor(ours).require_file()
    if not main or ours is None or not ours.samefile(main):
        raise BadOption(
            "connection", f"open on {engine.location.shown}, the store's own file", main or "memory"
        )
