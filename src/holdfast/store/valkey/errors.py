"""Every error of driver and server, told apart by who has to act.

    StoreUnavailable   nobody: the server went away (restart, failover, a moved slot, a cut
                       connection, a timeout), and clients try again by themselves
    StoreRefuses       an administrator: login, rights, memory
    RowRefused         the maker of the value: no number of the kind, too large, not encodable
    StoreError         unknown; no guess is made whose fault it is

A worker keeps what it could not write in every case but `RowRefused`. So an error that would have
met any other row as well must never become a `RowRefused`.
"""

from __future__ import annotations

import sys

from holdfast.errors import (
    AccessRefused,
    RowRefused,
    StoreError,
    StoreRefuses,
    StoreUnavailable,
)
from holdfast.store.valkey.resp import ResponseError

# Errors from inside a script arrive as plain text, and each release words them in its own way.
_PASSING = (
    "LOADING",
    "READONLY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "MOVED",
    "ASK ",
    "MISCONF",
    "NOREPLICAS",
    "BUSY ",
    "UNBLOCKED",
    "max number of clients",
)
_REFUSED = ("NOPERM", "NOAUTH", "WRONGPASS", "invalid password", "without any password")
_OF_THE_ROW = (
    "value is not an integer",
    "value is not a valid float",
    "would overflow",
    "string exceeds maximum allowed size",
    "invalid bulk length",
)


def _of_driver(*names: str) -> tuple[type[Exception], ...]:
    """These errors of the driver. There are none where the driver was never imported, which only
    clusters, sentinels and TLS need."""
    driver = sys.modules.get("redis.exceptions")
    return () if driver is None else tuple(getattr(driver, name) for name in names)


def response_errors() -> tuple[type[Exception], ...]:
    """What a command raises that the server answered with an error."""
    return ResponseError, *_of_driver("ResponseError")


def connection_lost(error: Exception) -> bool:
    """Whether the connection itself is gone, not the server or the command."""
    if isinstance(error, (TimeoutError, *_of_driver("TimeoutError", "BusyLoadingError"))):
        return False
    if isinstance(error, _of_driver("MaxConnectionsError", "AuthenticationError")):
        return False
    return isinstance(error, (ConnectionError, *_of_driver("ConnectionError")))


def script_missing(error: BaseException) -> bool:
    return isinstance(error, _of_driver("NoScriptError")) or "NOSCRIPT" in str(error)


def translated(error: Exception, where: str) -> StoreError | None:
    """The error callers know, or None when it is none of these and must surface as it is.

    Driver messages are kept: they name neither password nor URL.
    """
    text = str(error)
    if _is_refused(error) or any(word in text for word in _REFUSED):
        return AccessRefused(
            f"{where} refuses this program: {text}; check user, password and rights"
        )
    if isinstance(error, _of_driver("OutOfMemoryError")) or "OOM command not allowed" in text:
        return StoreRefuses(
            f"{where} is out of memory and took nothing of this: raise its maxmemory, or let "
            "retention remove ended jobs sooner (holdfast queues tune)"
        )
    if _is_away(error) or any(word in text for word in _PASSING):
        return StoreUnavailable(f"{where} is out of reach: {_described(error)}")
    return _refusal(error, where)


def _is_refused(error: Exception) -> bool:
    names = "AuthenticationError", "AuthorizationError", "NoPermissionError"
    return isinstance(error, _of_driver(*names))


def _is_away(error: Exception) -> bool:
    names = "ConnectionError", "TimeoutError", "ClusterError", "RedisClusterException"
    return isinstance(error, (TimeoutError, OSError, *_of_driver(*names)))


def _refusal(error: Exception, where: str) -> StoreError | None:
    if isinstance(error, (UnicodeError, OverflowError, *_of_driver("DataError"))) or any(
        words in str(error) for words in _OF_THE_ROW
    ):
        return RowRefused(f"{where} cannot take a value: {_described(error)}")
    if isinstance(error, (ResponseError, *_of_driver("RedisError"))):
        return StoreError(f"{where} cannot do this: {_described(error)}")
    return None


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
