"""Which driver errors mean that the store is out of reach, and which mean something else.

Callers retry on `StoreUnavailable` alone. So it must cover every way in which a
server goes away (restart, failover, exhaustion, a cut line, a timeout) and
nothing that would fail the same way for ever.
"""

from __future__ import annotations

import asyncpg

from holdfast.errors import SchemaMissing, StoreError, StoreUnavailable

# The line is gone: the same call on a fresh connection may well succeed at once.
LINE_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    ConnectionError,
    EOFError,
)

# Two transactions met; one of them has to start over.
COLLISION = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)

_AWAY = (
    *LINE_LOST,
    *COLLISION,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.LockNotAvailableError,
    asyncpg.InternalClientError,
    TimeoutError,
    OSError,
)

_MISSING = (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError)

_MISCONFIGURED = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)

# Of a session's settings, which are what a URL says beyond our own options.
_BAD_SETTING = (
    asyncpg.UndefinedObjectError,
    asyncpg.InvalidParameterValueError,
    asyncpg.CantChangeRuntimeParamError,
)


def line_lost(error: Exception) -> bool:
    """Whether the connection itself is gone, not the server or the statement."""
    if isinstance(error, TimeoutError):
        return False
    return isinstance(error, LINE_LOST) or _closed_under_us(error)


def translated(error: Exception, where: str) -> StoreError | None:
    """The error callers know, or None when it is none of these and must surface as it is.

    Driver messages are kept: they name neither password nor URL.
    """
    if isinstance(error, _MISSING):
        return SchemaMissing(where)
    if isinstance(error, _MISCONFIGURED):
        return StoreError(f"{where} refuses this program: {error}; check user, database and rights")
    if isinstance(error, _BAD_SETTING) and error.severity_en == "FATAL":
        return StoreError(f"{where} refuses a setting: {error}; check the options in the URL")
    if isinstance(error, _AWAY) or _closed_under_us(error):
        return StoreUnavailable(f"{where} is out of reach: {_told(error)}")
    return None


def _closed_under_us(error: Exception) -> bool:
    """The driver says "closed" with the same class it uses for misuse; only the text differs."""
    return isinstance(error, asyncpg.InterfaceError) and (
        "clos" in str(error) or "released" in str(error)
    )


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
