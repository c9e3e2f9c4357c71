"""A transaction and the patience to get one.

`BEGIN IMMEDIATE` takes the only write lock at once, so whatever a verb reads stays true
until it commits and nothing but the beginning can find the database busy. SQLite's own
busy handler sleeps up to 100 ms between tries; trying again every millisecond or so, with
jitter, lets many processes take turns instead.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from holdfast.errors import (
    AccessRefused,
    RowRefused,
    StoreError,
    StoreRefuses,
    StoreUnavailable,
)
from holdfast.store.contract.records import Topic

T = TypeVar("T")
Row = tuple[Any, ...]
State = tuple[int, ...]
Values = Sequence[object] | Mapping[str, object]

_OUT_OF_REACH = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}
)
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_NO_ACCESS = frozenset({sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH})

# Constraints are ours and hold for every row that the program means to write; the last two come
# from binding a value, before SQLite has seen it.
OF_THE_ROW = (sqlite3.DataError, sqlite3.IntegrityError, UnicodeError, OverflowError)


LONGEST_PAUSE = 0.005
OVERTAKEN = 0.025
"""Seconds after which others have plainly passed us by."""
EAGER_PAUSE = 0.002

MANY = 1_000
"""Jobs that a wakeup tells of when nobody has counted them."""


class Cursor(Protocol):
    """What a transaction needs of a cursor: sqlite3's own, or one that a caller lent."""

    @property
    def rowcount(self) -> int: ...
    def execute(self, sql: str, parameters: Any = ..., /) -> Any: ...
    def executemany(self, sql: str, parameters: Any, /) -> Any: ...
    def fetchall(self) -> list[Any]: ...


class Transaction:
    """What a verb sees: statements, the store's time, whom to wake after the commit, and what
    to remember only if there is one."""

    __slots__ = ("_cursor", "committed", "now", "wakes")

    def __init__(self, cursor: Cursor, now: int) -> None:
        self._cursor = cursor
        self.now = now
        self.wakes: dict[tuple[Topic, str], int] = {}
        self.committed: Callable[[], None] | None = None

    def rows(self, sql: str, values: Values = ()) -> list[Row]:
        self._cursor.execute(sql, values)
        return self._cursor.fetchall()

    def row(self, sql: str, values: Values = ()) -> Row | None:
        rows = self.rows(sql, values)
        return rows[0] if rows else None

    def run(self, sql: str, values: Values = ()) -> None:
        self._cursor.execute(sql, values)

    def changed(self, sql: str, values: Values = ()) -> int:
        """How many rows the statement wrote."""
        self._cursor.execute(sql, values)
        return self._cursor.rowcount

    def each(self, sql: str, many: Iterable[Values]) -> None:
        self._cursor.executemany(sql, many)

    def wake(self, topic: Topic, name: str = "", jobs: int = 1) -> None:
        """`jobs`: how many more may be claimed now, where the topic is READY."""
        self.wakes[topic, name] = self.wakes.get((topic, name), 0) + jobs


def state_of(connection: sqlite3.Connection) -> State:
    """As this connection sees it. Differs from an earlier one if anybody has committed since:
    another connection's commits change the version, its own the count of changes."""
    [version] = connection.execute("PRAGMA data_version").fetchone()
    return id(connection), version, connection.total_changes


def write(
    connection: sqlite3.Connection, clock: Callable[[], int], work: Callable[[Transaction], T]
) -> T:
    """One try at `work` in a transaction of its own; the time is read once the lock is held."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        tx = Transaction(connection.cursor(), clock())
        answer = work(tx)
        connection.execute("COMMIT")
    except BaseException:
        # A failed COMMIT may already have rolled back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    if tx.committed is not None:
        tx.committed()
    return answer


def patiently(
    work: Callable[[], T],
    patience: float,
    where: str,
    *,
    closing: Callable[[], bool],
    waited: Callable[[], None],
) -> T:
    """Repeat what another process keeps from happening, as long as patience lasts and the store
    is not being closed: who closes it would have to wait as long. Who is overtaken says so by
    `waited`, and sleeps so little that it meets the gap which others then leave."""
    began, pause = time.monotonic(), 0.0005
    while True:
        try:
            return work()
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code not in _BUSY:
                raise _named(error, code, where) from error
            lasted = time.monotonic() - began
            if lasted > patience or closing():
                raise StoreUnavailable(
                    f"{where} was busy for {patience:g} s: another program holds a write "
                    "transaction open; end it, or raise busy_timeout in the URL"
                ) from error
        except OF_THE_ROW as error:
            raise RowRefused(f"{where} cannot take a value: {error}") from error
        except sqlite3.Error as error:  # not a database, or a damaged one, or a defect of ours
            raise _unbound(error, where) or StoreError(f"{where}: {error}") from error
        if lasted > OVERTAKEN:
            waited()
            pause = EAGER_PAUSE
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(pause * 1.5, LONGEST_PAUSE)


def _named(error: sqlite3.OperationalError, code: int, where: str) -> Exception:
    if code in _OUT_OF_REACH:
        return StoreUnavailable(f"{where}: {error} ({error.sqlite_errorname})")
    if code in _NO_ACCESS:
        return AccessRefused(f"{where} refuses this program: {error}; check the file's rights")
    if code == sqlite3.SQLITE_ERROR:  # what a statement names is not there
        return StoreRefuses(f"{where} has another schema than this program needs: {error}")
    return StoreError(f"{where}: {error}")


def _unbound(error: sqlite3.Error, where: str) -> RowRefused | None:
    """A value of a type that SQLite does not know; the driver has no class of its own for that."""
    if isinstance(error, sqlite3.InterfaceError | sqlite3.ProgrammingError) and (
        "binding parameter" in str(error)
    ):
        return RowRefused(f"{where} cannot take a value: {error}")
    return None
