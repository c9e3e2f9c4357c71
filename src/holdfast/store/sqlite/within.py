"""Enqueue inside the caller's own transaction, on a connection the caller opened.

Known are `sqlite3.Connection` and SQLAlchemy's Session, Connection and their async kinds;
they are recognised by their class's module, so SQLAlchemy need not be installed. The
statements are those of `insert`; the caller commits or rolls back. Other stores notice the
commit as they notice any commit of another connection.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from holdfast.errors import BadOption, NotCapable, StoreUnavailable
from holdfast.job import Inserted, NewJob
from holdfast.store.records import Capability
from holdfast.store.sqlite.engine import Engine, bump
from holdfast.store.sqlite.insertion import insert
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
    lent, in_transaction = _recognise(connection)
    cursor = lent.cursor()
    try:
        _require_same_file(cursor, engine)
        if jobs and not in_transaction:
            _begin(lent, cursor)
        return _insert(Transaction(cursor, engine.now()), jobs)
    finally:
        cursor.close()


def _insert(tx: Transaction, jobs: Sequence[NewJob]) -> list[Inserted]:
    if not jobs:
        return []
    try:
        answers = insert(tx, jobs)
        bump(tx)
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
        raise StoreUnavailable(
            "the caller's transaction cannot write: another has written since it began; "
            "roll back and try again, and begin it with BEGIN IMMEDIATE"
        ) from error
    return answers


def _recognise(connection: Any) -> tuple[Any, bool]:
    """The driver's connection that makes cursors, and whether a transaction is open on it."""
    if isinstance(connection, sqlite3.Connection):
        return connection, connection.in_transaction
    if _is_from_sqlalchemy(connection):
        if hasattr(connection, "get_bind"):
            connection = connection.connection()
        if getattr(getattr(connection, "dialect", None), "name", "") == "sqlite":
            pooled = connection.connection
            return pooled.dbapi_connection, pooled.driver_connection.in_transaction
    raise BadOption("connection", _EXPECTED, type(connection).__qualname__)


def _is_from_sqlalchemy(connection: object) -> bool:
    return any(base.__module__.startswith("sqlalchemy.") for base in type(connection).__mro__)


def _begin(lent: Any, cursor: Any) -> None:
    """Take the write lock at once: a transaction that begins by reading may lose its turn."""
    if getattr(lent, "autocommit", None) is True:
        raise BadOption(
            "connection",
            "in a transaction (this one has autocommit=True, so its commit() does nothing)",
            "one outside any",
        )
    cursor.execute("BEGIN IMMEDIATE")


def _require_same_file(cursor: Any, engine: Engine) -> None:
    if isinstance(cursor, sqlite3.Cursor):
        cursor.row_factory = None  # positions are what is read, whatever the caller chose
    cursor.execute("PRAGMA database_list")
    main = next((row[2] for row in cursor.fetchall() if row[1] == "main"), "")
    ours = engine.location.path
    if not main or ours is None or not ours.samefile(main):
        raise BadOption(
            "connection", f"open on {engine.location.shown}, the store's own file", main or "memory"
        )
