"""Unique keys that somebody's open transaction holds.

Nobody can see such a key: the server only lets an insert of it wait until that transaction ends.
So a wait is bounded, and which keys of a batch it was about is found out by trying.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import asyncpg

from holdfast.job.record import NewJob
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.pool import Line

A_TRY = 0.1
"""Seconds that one of our own inserts waits for a key. The caller repeats it for as long as
`key_timeout` says, so that no connection is kept by a key that is not free."""

A_GLANCE = "1ms"
NOT_AVAILABLE = "55P03"


def milliseconds(seconds: float) -> str:
    """A time as the server's settings take it.

    >>> milliseconds(0.25)
    '250ms'
    """
    return f"{max(1, round(seconds * 1000))}ms"


def waited_in_vain(error: BaseException) -> bool:
    """Whether a lock was not to be had in time, by whichever driver or layer that was told."""
    told = (error, error.__cause__, getattr(error, "orig", None))
    return any(getattr(one, "sqlstate", None) == NOT_AVAILABLE for one in told)


def keys_of(jobs: Sequence[NewJob]) -> list[str]:
    return sorted({job.unique.key for job in jobs if job.unique is not None})


async def held_among(connections: Connections, keys: Sequence[str]) -> list[str]:
    """Those that are held, found by halves: usually it is one key of many."""
    if await connections.run(_attempt(connections, keys)):
        return []
    if len(keys) == 1:
        return list(keys)
    half = len(keys) // 2
    first = await held_among(connections, keys[:half])
    return [*first, *await held_among(connections, keys[half:])]


def _attempt(connections: Connections, keys: Sequence[str]) -> Callable[[Line], Awaitable[bool]]:
    """Whether all of the keys can be taken; none is."""

    async def attempt(line: Line) -> bool:
        transaction = line.transaction()
        await transaction.start()
        try:
            await line.fetch(connections.scripts["keys/try"], list(keys), A_GLANCE)
        except asyncpg.LockNotAvailableError:
            return False
        else:
            return True
        finally:
            await transaction.rollback()

    return attempt
