"""A row for each resource in the user's own database, which names the newest attempt that wrote.

An attempt writes the row in the transaction of its work. If the row names a newer attempt, nothing
is written and `Outrun` is raised, which rolls the work back.

Fences grow with the claims of one job. Where several jobs write the same resource, the attempt that
was claimed later is the newer one. The older one fails, is made again, and is then the newer one.
"""

from __future__ import annotations

import re
import sqlite3
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any

from holdfast.context import Context
from holdfast.errors import FenceTableMissing, Outrun
from holdfast.job import checks
from holdfast.job.loopless import run_without_loop
from holdfast.store.borrowing import (
    is_a,
    is_of_django,
    recognise,
    recognise_sync,
    session_of,
    sqlstate_of,
)
from holdfast.store.borrowing_sqlite import recognise as recognise_sqlite
from holdfast.store.borrowing_sqlite import run_on

_SQL = files(__package__) / "sql"
TABLE = (_SQL / "table.sql").read_text("utf-8").strip()
"""The statement that makes the table, for the migrations of your database."""

_GUARD = (_SQL / "guard.sql").read_text("utf-8")
_PLACEHOLDER = re.compile(r"\$\d")
_UNDEFINED_TABLE = "42P01"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST = 500


async def guard(connection: object, ctx: Context, resource: str) -> None:
    """Let this attempt write the resource, or raise `Outrun` if a newer attempt has written it.

    To be called in the transaction that writes, before or after the writes themselves.
    """
    values = _values(ctx, resource)
    if _is_sqlite(connection):
        held = await run_on(connection, lambda inner: _on_sqlite(inner, values))
    else:
        held = await _on_postgres(recognise(connection), values)
    _require(held, ctx, resource)


def guard_sync(connection: object, ctx: Context, resource: str) -> None:
    """`guard` for plain functions, with a connection that needs no loop."""
    values = _values(ctx, resource)
    if _is_sqlite(connection):
        held = _on_sqlite(connection, values)
    else:
        held = run_without_loop(_on_postgres(recognise_sync(connection), values))
    _require(held, ctx, resource)


def _values(ctx: Context, resource: str) -> tuple[Any, ...]:
    checks.text("resource", resource, _LONGEST)
    claimed = (ctx.claimed_at - _EPOCH) // timedelta(microseconds=1)
    return resource, str(ctx.job.id), ctx.fence, claimed


def _require(held: bool, ctx: Context, resource: str) -> None:
    if not held:
        raise Outrun(resource, ctx.job.id, ctx.fence)


async def _on_postgres(borrowed: Any, values: tuple[Any, ...]) -> bool:
    await borrowed.require_transaction()
    try:
        return bool(await borrowed.fetch(_GUARD, values))
    except Exception as error:
        if sqlstate_of(error) == _UNDEFINED_TABLE:
            raise FenceTableMissing(TABLE) from error
        raise


def _on_sqlite(connection: object, values: tuple[Any, ...]) -> bool:
    lent = recognise_sqlite(connection)
    try:
        lent.require_transaction()
        lent.begin()
        lent.cursor.execute(_PLACEHOLDER.sub("?", _without_comments(_GUARD)), values)
        return lent.cursor.fetchone() is not None
    except sqlite3.OperationalError as error:
        if "no such table: resource_fence" in str(error):
            raise FenceTableMissing(TABLE) from error
        raise
    finally:
        lent.cursor.close()


def _without_comments(script: str) -> str:
    return "\n".join(line for line in script.splitlines() if not line.startswith("--"))


def _is_sqlite(connection: Any) -> bool:
    if isinstance(connection, sqlite3.Connection) or is_a(connection, "aiosqlite", "Connection"):
        return True
    if is_of_django(connection):
        return bool(connection.vendor == "sqlite")
    given = session_of(connection)
    bound = given.get_bind() if hasattr(given, "get_bind") else given
    return getattr(getattr(bound, "dialect", None), "name", None) == "sqlite"
