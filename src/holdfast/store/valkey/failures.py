"""Which driver errors mean that the store is out of reach, and which mean something else.

Callers retry on `StoreUnavailable` alone. So it must cover every way in which a server goes away
(restart, failover, a moved slot, a cut line, a timeout) and nothing that would fail the same way
for ever.
"""

from __future__ import annotations

from redis import exceptions

from holdfast.errors import StoreError, StoreUnavailable

# Errors from inside a script reach us as plain text, and each release words them in its own way.
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
_AWAY = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.ClusterError,
    exceptions.RedisClusterException,
    TimeoutError,
    OSError,
)
_MISCONFIGURED = (
    exceptions.AuthenticationError,
    exceptions.AuthorizationError,
    exceptions.NoPermissionError,
)


def line_lost(error: Exception) -> bool:
    """Whether the connection itself is gone, not the server or the command."""
    if isinstance(error, exceptions.TimeoutError | exceptions.BusyLoadingError | TimeoutError):
        return False
    if isinstance(error, exceptions.MaxConnectionsError | exceptions.AuthenticationError):
        return False
    return isinstance(error, exceptions.ConnectionError | ConnectionError)


def script_missing(error: BaseException) -> bool:
    return isinstance(error, exceptions.NoScriptError) or "NOSCRIPT" in str(error)


def translated(error: Exception, where: str) -> StoreError | None:
    """The error callers know, or None when it is none of these and must surface as it is.

    Driver messages are kept: they name neither password nor URL.
    """
    text = str(error)
    if isinstance(error, _MISCONFIGURED) or any(word in text for word in _REFUSED):
        return StoreError(f"{where} refuses this program: {text}; check user, password and rights")
    if isinstance(error, exceptions.OutOfMemoryError) or "OOM command not allowed" in text:
        return StoreError(
            f"{where} is out of memory and took nothing of this: raise its maxmemory, or let "
            "retention remove ended jobs sooner (holdfast queues tune)"
        )
    if isinstance(error, _AWAY) or any(word in text for word in _PASSING):
        return StoreUnavailable(f"{where} is out of reach: {_told(error)}")
    return None


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
