"""What SQLite's errors mean to a caller of the store."""

from __future__ import annotations

import sqlite3

from holdfast.errors import (
    AccessRefused,
    RowRefused,
    StoreError,
    StoreRefuses,
    StoreUnavailable,
)

# Constraints are ours and hold for every row that the program means to write; the last two come
# from binding a value, before SQLite has seen it.
OF_THE_ROW = (sqlite3.DataError, sqlite3.IntegrityError, UnicodeError, OverflowError)

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_OUT_OF_REACH = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}
)
_NO_ACCESS = frozenset({sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH})


def is_busy(error: Exception) -> bool:
    """Whether another connection holds the lock, so that the same may succeed a moment later."""
    return isinstance(error, sqlite3.OperationalError) and _code(error) in _BUSY


def named(error: Exception, where: str) -> Exception:
    """The store's own error for an error of the driver."""
    if isinstance(error, OF_THE_ROW) or _is_unbound(error):
        return RowRefused(f"{where} cannot take a value: {error}")
    if not isinstance(error, sqlite3.OperationalError):
        return StoreError(f"{where}: {error}")  # no database, a damaged one, or a defect of ours
    code = _code(error)
    if code in _OUT_OF_REACH:
        return StoreUnavailable(f"{where}: {error} ({error.sqlite_errorname})")
    if code in _NO_ACCESS:
        return AccessRefused(f"{where} refuses this program: {error}; check the file's rights")
    if code == sqlite3.SQLITE_ERROR:  # what a statement names is not there
        return StoreRefuses(f"{where} has another schema than this program needs: {error}")
    return StoreError(f"{where}: {error}")


def _code(error: sqlite3.Error) -> int:
    """The primary code; the extended ones only say more about it."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _is_unbound(error: Exception) -> bool:
    """A value of a type that SQLite does not know; the driver has no class of its own for that."""
    return isinstance(error, sqlite3.InterfaceError | sqlite3.ProgrammingError) and (
        "binding parameter" in str(error)
    )
