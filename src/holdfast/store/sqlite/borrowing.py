"""A connection that the caller opened on the store's own file, and its transaction.

The caller commits or rolls back. Other stores notice the commit as they notice any commit of
another connection.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.errors import (
    BadOption,
    NotCapable,
    SchemaMissing,
    StoreUnavailable,
)
from holdfast.store.borrowing_sqlite import Lent, recognise
from holdfast.store.contract.records import Capability
from holdfast.store.sqlite.anchor import Anchor
from holdfast.store.sqlite.options import Location
from holdfast.store.sqlite.transaction import Transaction


@contextmanager
def borrow(connection: Any, location: Location) -> Iterator[Lent]:
    """Use the caller's connection, which has to be open on the store's own file."""
    if location.path is None:
        raise NotCapable("sqlite in memory", Capability.JOIN_TRANSACTION.value)
    lent = recognise(connection)
    try:
        lent.require_transaction()
        _require_same_file(lent.cursor, location)
        with _named_errors(location):
            yield lent
    finally:
        lent.cursor.close()


@contextmanager
def transaction(lent: Lent, now: int) -> Iterator[Transaction]:
    """A transaction for a verb. Like any write of the store it leaves word for other processes,
    who hear of it when the caller commits."""
    lent.begin()
    tx = Transaction(lent.cursor, now)
    yield tx
    tx.close()


def reading(lent: Lent, now: int) -> Transaction:
    """For a verb that only reads. It begins nothing, and so leaves no lock behind."""
    return Transaction(lent.cursor, now)


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
