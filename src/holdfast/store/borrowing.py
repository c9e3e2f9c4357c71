"""Run scripts inside the caller's own transaction, whatever driver the connection came from.

A connection is recognised by the module that its class comes from, so that none of these drivers
has to be installed or imported. Scripts are written with `$1`. Where a driver wants another style,
the placeholders are translated, never the values.

Nothing here commits or rolls back: the transaction is the caller's. Drivers that begin a
transaction with the first statement do so for our statements too. On a connection that would commit
each statement by itself `require_transaction` raises `NoTransaction`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from holdfast.errors import BadOption, NoTransaction

Rows = Sequence[Any]
Answer = TypeVar("Answer")

ACCEPTED_SYNC = (
    "a psycopg or psycopg2 connection, a SQLAlchemy or SQLModel Session, scoped_session or "
    "Connection, or Django's connection, on Postgres"
)
ACCEPTED = (
    "an asyncpg Connection, a psycopg AsyncConnection, a SQLAlchemy or SQLModel AsyncSession, "
    f"async_scoped_session or AsyncConnection, or {ACCEPTED_SYNC}"
)

_PLACEHOLDER = re.compile(r"\$(\d+)")
_IDLE = 0  # libpq's number for "no transaction", which both psycopgs use
_AUTOCOMMIT_OFF = "set its autocommit to False"
_ATOMIC = "with transaction.atomic():"


class Borrowed(Protocol):
    """A caller's connection, able to run scripts in the caller's transaction. The rows that `fetch`
    answers are read by position and by name."""

    async def require_transaction(self) -> None: ...

    def fetch(self, script: str, values: Sequence[object]) -> Awaitable[Rows]: ...


class NamedRow(tuple[Any, ...]):
    """A row of any driver that gives tuples, read by the names of its columns too."""

    names: dict[str, int]

    def __getitem__(self, key: Any) -> Any:
        return tuple.__getitem__(self, self.names[key] if isinstance(key, str) else key)


def named(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Rows:
    """The rows of one answer, which share their names."""
    names = {name: place for place, name in enumerate(columns)}
    kind = type("NamedRow", (NamedRow,), {"names": names})
    return [kind(row) for row in rows]


# Recognising connections -----------------------------------------------------------------


def recognise(connection: object) -> Borrowed:
    """Wrap any connection that is known. One whose driver needs no loop blocks it meanwhile."""
    for comes_from, wrap in _ASYNC.items():
        if is_a(connection, *comes_from):
            return wrap(connection)
    return _sync(connection, ACCEPTED)


def recognise_sync(connection: object) -> Borrowed:
    """Wrap a connection whose driver needs no loop: its `fetch` never waits for one."""
    return _sync(connection, ACCEPTED_SYNC)


def _sync(connection: object, accepted: str) -> Borrowed:
    for comes_from, wrap in _SYNC.items():
        if is_a(connection, *comes_from):
            return wrap(connection)
    kind = type(connection)
    raise BadOption("connection", accepted, f"{kind.__module__}.{kind.__qualname__}")


def is_a(connection: object, package: str, *names: str) -> bool:
    """True of subclasses too: users derive their own Session and Connection classes."""
    return any(
        base.__name__ in names and base.__module__.partition(".")[0] == package
        for base in type(connection).__mro__
    )


def is_of_django(connection: object) -> bool:
    """True of `connections["default"]` and of `django.db.connection`, which stands for it."""
    return is_a(connection, "django", "BaseDatabaseWrapper", "ConnectionProxy")


def session_of(connection: Any) -> Any:
    """The session itself, if this is a registry of one session for each thread or task."""
    scoped = is_a(connection, "sqlalchemy", "scoped_session", "async_scoped_session")
    return connection() if scoped else connection


class _Kept:
    """A connection that is used as it was given."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection


class _Asyncpg(_Kept):
    """An asyncpg connection, or the proxy that its pool hands out. It takes `$1` as it is."""

    async def require_transaction(self) -> None:
        if not self._connection.is_in_transaction():
            raise NoTransaction.not_begun("async with connection.transaction():")

    async def fetch(self, script: str, values: Sequence[object]) -> Rows:
        found: Rows = await self._connection.fetch(script, *values)
        return found


class _Psycopg(_Kept):
    async def require_transaction(self) -> None:
        _require_begun(self._connection, "with connection.transaction():")

    async def fetch(self, script: str, values: Sequence[object]) -> Rows:
        with self._connection.cursor(row_factory=tuple_rows) as cursor:
            cursor.execute(*as_pyformat(script, values))
            return _named_by(cursor, cursor.fetchall())


class _AsyncPsycopg(_Kept):
    async def require_transaction(self) -> None:
        _require_begun(self._connection, "async with connection.transaction():")

    async def fetch(self, script: str, values: Sequence[object]) -> Rows:
        async with self._connection.cursor(row_factory=tuple_rows) as cursor:
            await cursor.execute(*as_pyformat(script, values))
            return _named_by(cursor, await cursor.fetchall())


class _Psycopg2(_Kept):
    async def require_transaction(self) -> None:
        _require_begun(self._connection, _AUTOCOMMIT_OFF)

    async def fetch(self, script: str, values: Sequence[object]) -> Rows:
        plain = sys.modules["psycopg2.extensions"].cursor  # whatever rows the caller chose
        with self._connection.cursor(cursor_factory=plain) as cursor:
            cursor.execute(*as_pyformat(script, values))
            return _named_by(cursor, cursor.fetchall())


class _Django(_Kept):
    """Django's own connection. The statement goes through Django's cursor, so that its wrappers,
    logs and test cases see it, with either psycopg and with its pool."""

    def __init__(self, connection: Any) -> None:
        if connection.vendor != "postgresql":
            raise BadOption("connection", f"{ACCEPTED}, of the store's database", connection.vendor)
        super().__init__(connection)

    async def require_transaction(self) -> None:
        require_atomic(self._connection)

    async def fetch(self, script: str, values: Sequence[object]) -> Rows:
        with self._connection.cursor() as cursor:
            cursor.execute(*as_pyformat(script, values))
            return _named_by(cursor, [*map(self._aware, cursor.fetchall())])

    def _aware(self, row: Sequence[Any]) -> Sequence[Any]:
        """With USE_TZ off Django reads times without a zone: in the zone of its session."""
        if not any(isinstance(value, datetime) and value.tzinfo is None for value in row):
            return row
        from zoneinfo import ZoneInfo  # only Django has zones of its own

        zone = ZoneInfo(self._connection.timezone_name)
        return [
            value.replace(tzinfo=zone)
            if isinstance(value, datetime) and value.tzinfo is None
            else value
            for value in row
        ]


class _Sqlalchemy:
    """A Session or Connection. The statement goes through SQLAlchemy's own connection: so its
    autobegin covers the statement, and with it the caller's commit or rollback does."""

    def __init__(self, connection: Any) -> None:
        self._given = session_of(connection)

    def _connection(self) -> Any:
        given = self._given
        return given.connection() if hasattr(given, "get_bind") else given

    async def require_transaction(self) -> None:
        _require_no_autocommit(self._connection())

    async def fetch(self, script: str, values: Sequence[object]) -> Rows:
        connection = self._connection()
        return _all(connection.exec_driver_sql(*_in_style(connection.dialect, script, values)))


class _AsyncSqlalchemy:
    def __init__(self, connection: Any) -> None:
        self._given = session_of(connection)

    async def _connection(self) -> Any:
        given = self._given
        return await given.connection() if hasattr(given, "get_bind") else given

    async def require_transaction(self) -> None:
        _require_no_autocommit((await self._connection()).sync_connection)

    async def fetch(self, script: str, values: Sequence[object]) -> Rows:
        connection = await self._connection()
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
    ("psycopg2", "connection"): _Psycopg2,
    ("sqlalchemy", "Session"): _Sqlalchemy,
    ("sqlalchemy", "scoped_session"): _Sqlalchemy,
    ("sqlalchemy", "Connection"): _Sqlalchemy,
    ("django", "BaseDatabaseWrapper"): _Django,
    ("django", "ConnectionProxy"): _Django,
}


# Refusing a connection that is in no transaction -------------------------------------------


def require_atomic(connection: Any) -> None:
    """Raise unless Django's connection is inside `atomic()`, or its autocommit is off."""
    if not connection.in_atomic_block and connection.get_autocommit():
        raise NoTransaction.not_begun(_ATOMIC)


def _require_begun(connection: Any, begin: str) -> None:
    if connection.autocommit and connection.info.transaction_status == _IDLE:
        raise NoTransaction.not_begun(begin)


def _require_no_autocommit(connection: Any) -> None:
    _require_postgresql(connection.dialect)
    if getattr(connection.connection.dbapi_connection, "autocommit", False):
        raise NoTransaction.not_begun('another isolation_level than "AUTOCOMMIT"')


# Translating placeholders, rows and errors -------------------------------------------------


def as_pyformat(script: str, values: Sequence[object]) -> tuple[str, dict[str, object]]:
    """`$1` becomes `%(p1)s`; a literal percent sign is doubled.

    >>> as_pyformat("select $1 % 2, $1", [7])
    ('select %(p1)s %% 2, %(p1)s', {'p1': 7})
    """
    text = _PLACEHOLDER.sub(r"%(p\1)s", script.replace("%", "%%"))
    return text, {f"p{number}": value for number, value in enumerate(values, 1)}


def sqlstate_of(error: BaseException) -> str | None:
    """The server's code of an error, whichever driver or layer reports it."""
    for report in (error, getattr(error, "orig", None), error.__cause__):
        code = getattr(report, "sqlstate", None) or getattr(report, "pgcode", None)
        if code is not None:
            return str(code)
    return None


def _require_postgresql(dialect: Any) -> None:
    if dialect.name != "postgresql":
        raise BadOption("connection", f"{ACCEPTED}, in the store's own database", dialect.name)


def _in_style(dialect: Any, script: str, values: Sequence[object]) -> tuple[str, Any]:
    _require_postgresql(dialect)
    match dialect.paramstyle:
        case "numeric_dollar":
            return script, tuple(values)
        case "pyformat":
            return as_pyformat(script, values)
        case other:
            expected = "from a driver whose parameters are 'pyformat' or 'numeric_dollar'"
            raise BadOption("connection", expected, f"{dialect.driver} with {other!r}")


def tuple_rows(cursor: Any) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """A psycopg row factory: our code reads rows of one kind, whatever factory the caller chose."""
    return tuple


def _named_by(cursor: Any, rows: Sequence[Sequence[Any]]) -> Rows:
    return named([column[0] for column in cursor.description], rows)


def _all(result: Any) -> Rows:
    return named([*result.keys()], result.fetchall())
