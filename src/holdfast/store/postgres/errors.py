"""Every error of driver and server, sorted by who has to act.

    StoreUnavailable   nobody: the server went away (restart, failover, exhaustion, lost connection,
                       timeout), and clients try again by themselves
    StoreRefuses       an administrator: login, grants, schema
    RowRefused         whoever made the value: SQLSTATE classes 22, 23 and 54, and what the driver
                       cannot encode
    StoreError         unknown; no guess is made whose fault it is

A worker keeps what it could not write in every case but `RowRefused`. So an error that would have
met any other row as well must never become a `RowRefused`.
"""

from __future__ import annotations

import asyncpg

from holdfast.errors import (
    AccessRefused,
    RowRefused,
    SchemaMissing,
    StoreError,
    StoreRefuses,
    StoreUnavailable,
)

# The connection is gone: the same call on a new connection may well succeed at once.
CONNECTION_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    ConnectionError,
    EOFError,
)

# Two transactions collided; one of them has to start over.
COLLISION = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)

_AWAY = (
    *CONNECTION_LOST,
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

_OTHER_SCHEMA = (asyncpg.UndefinedColumnError, asyncpg.UndefinedFunctionError)

# Constraints too: they are ours, and every row that the program means to write keeps them.
_OF_THE_ROW = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
    UnicodeError,
    OverflowError,
)

# Errors of a session's settings: those come from options of a URL that are not ours.
_BAD_SETTING = (
    asyncpg.UndefinedObjectError,
    asyncpg.InvalidParameterValueError,
    asyncpg.CantChangeRuntimeParamError,
)


def needs_new_connection(error: Exception) -> bool:
    """Whether the same call may succeed on a new connection, and never will on this one.

    The connection is gone, or its session takes no writes. A session keeps the
    `default_transaction_read_only` that its database had when it was opened, and after a failover
    a connection may still lead to the server that was demoted. Only a new connection shows whether
    writes are taken by now.
    """
    return isinstance(error, asyncpg.ReadOnlySQLTransactionError) or _connection_lost(error)


def _connection_lost(error: Exception) -> bool:
    """Whether the connection itself is gone, not the server or the statement."""
    if isinstance(error, TimeoutError) or is_of_pooler(error):
        return False
    return isinstance(error, CONNECTION_LOST) or _closed_under_us(error)


def is_of_pooler(error: Exception) -> bool:
    """Whether PgBouncer or its like refused to connect because of a setting that it does not know:
    a server knows them all."""
    refused = isinstance(error, asyncpg.ProtocolViolationError)
    return refused and "startup parameter" in str(error)


def translated(error: Exception, where: str) -> StoreError | None:
    """The error that callers know, or None for an error that must surface as it is.

    Driver messages are kept: they name neither password nor URL.
    """
    if is_of_pooler(error):
        return StoreRefuses(
            f"{where} is a pooler, which does not pass our settings on ({error}): "
            "add ?pooler=true to the URL"
        )
    if isinstance(error, _AWAY) or _closed_under_us(error):
        return StoreUnavailable(f"{where} is out of reach: {_message(error)}")
    if isinstance(error, _OF_THE_ROW) and not _ends_the_session(error):
        return RowRefused(f"{where} cannot take a value: {_message(error)}")
    if isinstance(error, asyncpg.PostgresError):
        return _refusal(error, where) or StoreError(f"{where} cannot do this: {_message(error)}")
    return None


def _refusal(error: asyncpg.PostgresError, where: str) -> StoreRefuses | None:
    if isinstance(error, _MISSING):
        return SchemaMissing(where)
    if isinstance(error, _OTHER_SCHEMA):
        return StoreRefuses(f"{where} has another schema than this program needs: {error}")
    if isinstance(error, _MISCONFIGURED):
        return AccessRefused(
            f"{where} refuses this program: {error}; check user, database and rights"
        )
    if isinstance(error, _BAD_SETTING) and _ends_the_session(error):
        return StoreRefuses(f"{where} refuses a setting: {error}; check the options in the URL")
    return None


def _ends_the_session(error: Exception) -> bool:
    return getattr(error, "severity_en", None) == "FATAL"


def _closed_under_us(error: Exception) -> bool:
    """The driver raises one class for a closed connection and for misuse; only the text differs."""
    return isinstance(error, asyncpg.InterfaceError) and (
        "clos" in str(error) or "released" in str(error)
    )


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
