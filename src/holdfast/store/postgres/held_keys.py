"""Unique keys that an open transaction of somebody else holds.

Nobody can see such a key: the server only lets an insert of it wait until that transaction ends. So
each wait is bounded, and the keys of a batch that were waited for are found out by trying them.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import asyncpg

from holdfast.errors import KeyHeld, StoreUnavailable
from holdfast.job.record import NewJob
from holdfast.store.borrowing import sqlstate_of
from holdfast.store.postgres.connection import Connections, Session

T = TypeVar("T")

KEY_TRY_SECONDS = 0.1
"""How long one statement of our own waits for a key. The insert repeats it for as long as
`key_timeout` says, so that no connection is kept by a key that is not free."""

SHORTEST_WAIT = "1ms"
LOCK_NOT_AVAILABLE = "55P03"


def milliseconds(seconds: float) -> str:
    """A time as the server's settings take it.

    >>> milliseconds(0.25)
    '250ms'
    """
    return f"{max(1, round(seconds * 1000))}ms"


def waited_in_vain(error: BaseException) -> bool:
    """Whether a lock was not to be had in time, whichever driver or layer reports it."""
    return sqlstate_of(error) == LOCK_NOT_AVAILABLE


def keys_of(jobs: Sequence[NewJob]) -> list[str]:
    return sorted({job.unique.key for job in jobs if job.unique is not None})


async def unless_held(
    connections: Connections, keys: Sequence[str], work: Callable[[], Awaitable[T]]
) -> T:
    """Do work that takes these keys. Raises `KeyHeld` if it waited in vain for one of them. It is
    tried again if no key is held any more: then many wanted it, one after the other."""
    patience = connections.options.key_timeout
    give_up = time.monotonic() + patience
    while True:
        try:
            return await work()
        except StoreUnavailable as error:
            if not waited_in_vain(error) or time.monotonic() > give_up:
                raise
            if held := await held_among(connections, keys):
                raise KeyHeld(held, patience) from error


async def held_among(connections: Connections, keys: Sequence[str]) -> list[str]:
    """The keys that are held, found by halves: usually it is one key of many."""
    if not keys or await connections.run(lambda session: _all_free(session, keys)):
        return []
    if len(keys) == 1:
        return list(keys)
    half = len(keys) // 2
    first = await held_among(connections, keys[:half])
    return [*first, *await held_among(connections, keys[half:])]


async def _all_free(session: Session, keys: Sequence[str]) -> bool:
    """Whether all of the keys can be taken. None is: the attempt is rolled back."""
    transaction = session.connection.transaction()
    await transaction.start()
    try:
        await session.fetch("keys/try_all", list(keys), SHORTEST_WAIT)
    except asyncpg.LockNotAvailableError:
        return False
    else:
        return True
    finally:
        await transaction.rollback()
