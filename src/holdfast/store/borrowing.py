"""Run scripts inside the caller's own transaction, whatever driver the connection came from.

A connection is recognised by the module that its class comes from, so that none of these drivers
has to be installed or imported. Scripts are written with `$1`. Where a driver wants another style,
the placeholders are translated, never the values.

Nothing here begins, commits or rolls back: the transaction is the caller's.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from holdfast.errors import BadOption

Rows = Sequence[Any]
Answer = TypeVar("Answer")

ACCEPTED_SYNC = "a psycopg Connection or a SQLAlchemy Session or Connection on Postgres"
ACCEPTED = (
    "an asyncpg Connection, a psycopg AsyncConnection or Connection, or a SQLAlchemy "
    "AsyncSession, AsyncConnection, Session or Connection on Postgres"
)

_PLACEHOLDER = re.compile(r"\$(\d+)")


class Borrowed(Protocol):
    """A caller's connection, able to run one script in the caller's transaction."""

    def fetch(self, script: str, values: Sequence[object]) -> Awaitable[Rows]: ...


# Recognising connections -----------------------------------------------------------------


def recognise(connection: object) -> Borrowed:
    """Wrap any connection that is known. One whose driver needs no loop blocks it meanwhile."""
    for comes_from, wrap in _ASYNC.items():
        if _is_a(connection, *comes_from):
            return wrap(connection)
    return _sync(connection, ACCEPTED)


def recognise_sync(connection: object) -> Borrowed:
    """Wrap a connection whose driver needs no loop: its `fetch` never waits for one."""
    return _sync(connection, ACCEPTED_SYNC)


def _sync(connection: object, accepted: str) -> Borrowed:
    for comes_from, wrap in _SYNC.items():
        if _is_a(connection, *comes_from):
            return wrap(connection)
    kind = type(connection)
    raise BadOption("connection", accepted, f"{kind.__module__}.{kind.__qualname__}")


def _is_a(connection: object, package: str, name: str) -> bool:
    """True of subclasses too: users derive their own Session and Connection classes."""
    return any(
        base.__name__ == name and base.__module__.partition(".")[0] == package
        for base in type(connection).__mro__
    )


class _Asyncpg:
    """An asyncpg connection, or the proxy that its pool hands out. It takes `$1` as it is."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, script: str, values: Sequence[object]) -> Rows:
        found: Rows = await self._connection.fetch(script, *values)
        return found


class _Psycopg:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, script: str, values: Sequence[object]) -> Rows:
        with self._connection.cursor(row_factory=tuple_rows) as cursor:
            cursor.execute(*as_pyformat(script, values))
            found: Rows = cursor.fetchall()
            return found


class _AsyncPsycopg:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, script: str, values: Sequence[object]) -> Rows:
        async with self._connection.cursor(row_factory=tuple_rows) as cursor:
            await cursor.execute(*as_pyformat(script, values))
            found: Rows = await cursor.fetchall()
            return found


class _Sqlalchemy:
    """A Session or Connection. The statement goes through SQLAlchemy's own connection: so its
    autobegin covers the statement, and with it the caller's commit or rollback does."""

    def __init__(self, connection: Any) -> None:
        self._given = connection

    async def fetch(self, script: str, values: Sequence[object]) -> Rows:
        given = self._given
        connection = given.connection() if hasattr(given, "get_bind") else given
        return _all(connection.exec_driver_sql(*_in_style(connection.dialect, script, values)))


class _AsyncSqlalchemy:
    def __init__(self, connection: Any) -> None:
        self._given = connection

    async def fetch(self, script: str, values: Sequence[object]) -> Rows:
        given = self._given
        connection = await given.connection() if hasattr(given, "get_bind") else given
        styled = _in_style(connection.dialect, script, values)
        return _all(await connection.exec_driver_sql(*styled))


_ASYNC: dict[tuple[str, str], Callable[[Any], Borrowed]] = {
    ("asyncpg", "Connection"): _Asyncpg,
    ("asyncpg", "PoolConnectionProxy"): _Asyncpg,
    ("psycopg", "AsyncConnection"): _AsyncPsycopg,
    ("sqlalchemy", "AsyncSession"): _AsyncSqlalchemy,
    ("sqlalchemy", "async_scoped_session"): _AsyncSqlalchemy,
    ("sqlalchemy", "AsyncConnection"): _AsyncSqlalchemy,
}

_SYNC: dict[tuple[str, str], Callable[[Any], Borrowed]] = {
    ("psycopg", "Connection"): _Psycopg,
    ("sqlalchemy", "Session"): _Sqlalchemy,
    ("sqlalchemy", "scoped_session"): _Sqlalchemy,
    ("sqlalchemy", "Connection"): _Sqlalchemy,
}


# Running without a loop ------------------------------------------------------------------


def run_without_loop(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine to its end that never waits, because all it awaits is a connection from
    `recognise_sync`. So the steps of a verb are written once, for both kinds of drivers."""
    try:
        work.send(None)
    except StopIteration as done:
        answer: Answer = done.value
        return answer
    work.close()
    raise RuntimeError("a connection that needs no loop has waited for one")


# Translating placeholders ----------------------------------------------------------------


def as_pyformat(script: str, values: Sequence[object]) -> tuple[str, dict[str, object]]:
    """`$1` becomes `%(p1)s`; a literal percent sign is doubled.

    >>> as_pyformat("select $1 % 2, $1", [7])
    ('select %(p1)s %% 2, %(p1)s', {'p1': 7})
    """
    text = _PLACEHOLDER.sub(r"%(p\1)s", script.replace("%", "%%"))
    return text, {f"p{number}": value for number, value in enumerate(values, 1)}


def _in_style(dialect: Any, script: str, values: Sequence[object]) -> tuple[str, Any]:
    if dialect.name != "postgresql":
        raise BadOption("connection", f"{ACCEPTED}, in the store's own database", dialect.name)
    match dialect.paramstyle:
        case "numeric_dollar":
            return script, tuple(values)
        case "pyformat":
            return as_pyformat(script, values)
        case other:
            expected = "from a driver whose parameters are 'pyformat' or 'numeric_dollar'"
            raise BadOption("connection", expected, f"{dialect.driver} with {other!r}")


def tuple_rows(cursor: Any) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """A psycopg row factory: our code reads rows by position, whatever factory the caller chose."""
    return tuple


def _all(result: Any) -> Rows:
    found: Rows = result.fetchall()
    return found
