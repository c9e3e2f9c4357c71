"""Sweeps that remove rows from the head of an index, batch after batch.

While an old snapshot is open (a long report, a forgotten transaction) the server keeps what a sweep
removed, and a batch that starts at the head walks over all of it again: the time grows with the
square of the rows. So a sweep remembers where it is. What it remembers is a guess, since a
transaction may commit an early row late; it is dropped when a batch comes back short, which is how
every sweep ends.
"""

from __future__ import annotations

import time
from collections import deque
from datetime import datetime

from holdfast.store.contract.records import Promoted
from holdfast.store.postgres.connection import Connections

FORGET_AFTER = 1.0
"""Seconds after which a batch is not taken for the same sweep any more."""
BATCHES_AHEAD = 20
"""Many outcomes may expire at one moment, and the index is by that moment alone, because every
finish pays for it. So a look reads the ids of so many batches, and they are removed by id."""

LOOKS = 2
"""Most looks of one call: rows that somebody else has locked are found again and again."""

Position = tuple[datetime | None, str | None]
HEAD: Position = (None, None)


class Promoter:
    """The promote_due verb of one store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._scheduled = self._suspended = HEAD
        self._moved_at = 0.0

    async def promote(self, limit: int) -> Promoted:
        if time.monotonic() > self._moved_at + FORGET_AFTER:
            self._scheduled = self._suspended = HEAD
        channel = self._connections.options.channel
        position = (*self._scheduled, *self._suspended)
        found = await self._connections.timed("jobs/promote_due", channel, limit, *position)
        moved, queues, next_due_in, _, *last = found[0]
        self._remember((last[0], last[1]), (last[2], last[3]), more=moved >= limit)
        return Promoted(moved, tuple(queues), next_due_in)

    def _remember(self, scheduled: Position, suspended: Position, *, more: bool) -> None:
        """Where there was nothing to move, the position before stays."""
        self._moved_at = time.monotonic()
        if not more:
            self._scheduled = self._suspended = HEAD
            return
        self._scheduled = self._scheduled if scheduled == HEAD else scheduled
        self._suspended = self._suspended if suspended == HEAD else suspended


class Pruner:
    """The prune verb of one store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._ahead: deque[str] = deque()
        self._from: datetime | None = None
        self._at_end = False

    async def prune(self, limit: int) -> int:
        removed = looks = 0
        while removed < limit:
            if not self._ahead:
                if looks == LOOKS or not await self._look(BATCHES_AHEAD * limit):
                    break
                looks += 1
            some = [self._ahead.popleft() for _ in range(min(limit - removed, len(self._ahead)))]
            removed += int((await self._connections.timed("jobs/prune", some))[0][0])
        return removed

    async def _look(self, limit: int) -> bool:
        """Read ahead; False if the look before came to the end and its ids are used up."""
        if self._at_end:
            self._at_end, self._from = False, None
            return False
        found = await self._connections.timed("jobs/expired", limit, self._from)
        self._ahead.extend(row[0] for row in found)
        self._at_end = 0 < len(found) < limit
        self._from = found[-1][1] if len(found) == limit else None
        return bool(found)
