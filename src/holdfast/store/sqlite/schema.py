"""The schema in a file: whether it is Holdfast's, and which migrations are missing."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from holdfast.errors import SchemaMissing, StoreError
from holdfast.store.migrate import load_migrations, pending, require_current
from holdfast.store.sqlite.scripts import statements, steps
from holdfast.store.sqlite.transaction import Transaction

RECORDED = ["version", "name", "checksum", "applied_at"]


def migrate(tx: Transaction, where: str, *, may_create: bool = True) -> list[str]:
    """Apply the missing migrations. The transaction holds the write lock, so several processes
    may call this at once. Without `may_create`, a file that has none is not ours to change."""
    migration = steps("store/migrate")
    applied = _applied(tx, where)
    if not applied and not may_create:
        raise SchemaMissing(where)
    missing = pending(load_migrations(__package__), applied, where)
    if missing:
        tx.run(migration["create"])
    for step in missing:
        for statement in statements(step.sql):
            tx.run(statement)
        tx.run(migration["record"], (step.version, step.name, step.checksum, tx.now))
    return [step.name for step in missing]


_first_in_memory = b""
"""The first database in memory that this process has migrated, as it was before its first job."""


def copy_first(connection: sqlite3.Connection) -> None:
    """Make an empty database in memory like the first one of this process. That takes a tenth of
    the time of its migrations, and tests open thousands. Its record of migrations has the times of
    the first."""
    if _first_in_memory and not connection.execute("PRAGMA schema_version").fetchone()[0]:
        with closing(sqlite3.connect(":memory:")) as first:
            first.deserialize(_first_in_memory)
            first.backup(connection)


def remember_first(connection: sqlite3.Connection) -> None:
    """Not every build of SQLite can: then each database in memory is migrated."""
    global _first_in_memory
    if not _first_in_memory and hasattr(connection, "serialize"):
        _first_in_memory = connection.serialize()


def require_own(connection: sqlite3.Connection, where: str) -> None:
    """Raise unless the file holds the schema that this program knows."""
    applied = _applied(Transaction(connection.cursor(), 0), where)
    require_current(load_migrations(__package__), applied, where)


def _applied(tx: Transaction, where: str) -> dict[int, str]:
    """The versions and checksums of the migrations in the file. Users may share a file of their own
    with Holdfast: a table with a name of Holdfast's, in a file without its record of migrations, is
    the user's, and an error."""
    migration = steps("store/migrate")
    columns = [name for (name,) in tx.rows(migration["columns"])]
    if columns == RECORDED:
        return dict(tx.rows(migration["applied"]))
    for (name,) in tx.rows(migration["taken names"]):
        raise StoreError(
            f"{where} holds {name!r}, which Holdfast did not make: rename it, or give Holdfast "
            "a file of its own"
        )
    return {}
