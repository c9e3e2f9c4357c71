"""What time does to jobs, on Postgres.

`promote_due` and `prune` take rows from the head of an index, batch after batch. While an old
snapshot is open (a long report, a forgotten transaction) the server keeps the rows that a sweep
removed, and a batch that starts at the head passes over all of them again: the time grows with the
square of the rows. So a sweep remembers where it is. Its position is a guess, since a transaction
may commit an early row late; it is dropped when a batch comes back short, and every sweep ends so.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from datetime import datetime

from holdfast.job.ids import JobId
from holdfast.job.record import Live
from holdfast.store.contract.records import Promoted
from holdfast.store.postgres import rows
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.job_verbs import JobVerbs

FORGET_AFTER_SECONDS = 1.0
"""A batch that comes later than this is not taken for the same sweep any more."""
BATCHES_AHEAD = 20
"""How many batches of ids one query reads ahead. Many outcomes may expire at one moment, and the
index is by that moment alone, because every finish pays for it. So ids are read ahead, and the
jobs are removed by id."""
QUERIES_PER_PRUNE = 2
"""Most queries for ids of one call: rows that somebody else has locked are found every time."""

Position = tuple[datetime | None, str | None]
HEAD: Position = (None, None)


class PostgresSweeping(JobVerbs):
    """See `holdfast.store.contract.sweeping.Sweeping` for what each verb promises."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections)
        self._promoter = Promoter(connections)
        self._pruner = Pruner(connections)

    async def lapsed_leases(self, limit: int, after: str | None = None) -> list[Live]:
        found = await self._connections.timed("jobs/lapsed_leases", limit, after)
        return [rows.live(row) for row in found]

    async def overdue_attempts(
        self, limit: int, after: str | None = None, slack: float = 0.0
    ) -> list[Live]:
        found = await self._connections.timed("jobs/overdue_attempts", limit, after, slack)
        return [rows.live(row) for row in found]

    async def past_deadline(self, limit: int, after: str | None = None) -> list[Live]:
        """A page that held nothing but ended jobs is passed over: its entries are gone by now."""
        while True:
            found = await self._connections.timed("jobs/past_deadline", limit, after)
            live = [rows.live(row) for row in found if row["state"] is not None]
            if live or len(found) < limit:
                return live
            after = str(found[-1]["asked_id"])

    async def lift_deadlines(self, ids: Sequence[JobId]) -> list[JobId]:
        if not ids:
            return []
        found = await self._connections.fetch("jobs/lift_deadlines", list(ids))
        return [JobId(row["job_id"]) for row in found]

    async def next_deadline_in(self) -> float | None:
        [(seconds,)] = await self._connections.timed("jobs/next_deadline_in")
        return None if seconds is None else float(seconds)

    async def promote_due(self, limit: int) -> Promoted:
        return await self._promoter.promote(limit)

    async def due(self, limit: int, after: str | None = None) -> list[JobId]:
        found = await self._connections.timed("jobs/due", limit, after)
        return [JobId(row["job_id"]) for row in found]

    async def promote(self, ids: Sequence[JobId]) -> int:
        if not ids:
            return 0
        found = await self._connections.timed("jobs/promote", self._channel, list(ids))
        return int(found[0]["moved"])

    async def prune(self, limit: int) -> int:
        return await self._pruner.prune(limit)


class Promoter:
    """Makes ready what is due, and remembers how far it has come."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._scheduled = self._suspended = HEAD
        self._moved_at = 0.0

    async def promote(self, limit: int) -> Promoted:
        if time.monotonic() > self._moved_at + FORGET_AFTER_SECONDS:
            self._scheduled = self._suspended = HEAD
        channel = self._connections.options.channel
        position = (*self._scheduled, *self._suspended)
        [found] = await self._connections.timed("jobs/promote_due", channel, limit, *position)
        self._remember(
            (found["scheduled_due_at"], found["scheduled_id"]),
            (found["suspended_due_at"], found["suspended_id"]),
            more=found["moved"] >= limit,
        )
        return Promoted(found["moved"], tuple(found["queues"]), found["next_due_in"])

    def _remember(self, scheduled: Position, suspended: Position, *, more: bool) -> None:
        """Of a table that had nothing to move the position before stays."""
        self._moved_at = time.monotonic()
        if not more:
            self._scheduled = self._suspended = HEAD
            return
        self._scheduled = self._scheduled if scheduled == HEAD else scheduled
        self._suspended = self._suspended if suspended == HEAD else suspended


class Pruner:
    """Removes ended jobs whose time to be kept is over, by ids that it has read ahead."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._ahead: deque[str] = deque()
        self._from: datetime | None = None
        self._at_end = False

    async def prune(self, limit: int) -> int:
        removed = queries = 0
        while removed < limit:
            if not self._ahead:
                if queries == QUERIES_PER_PRUNE or not await self._read(BATCHES_AHEAD * limit):
                    break
                queries += 1
            some = [self._ahead.popleft() for _ in range(min(limit - removed, len(self._ahead)))]
            [(count,)] = await self._connections.timed("jobs/prune", some)
            removed += int(count)
        return removed

    async def _read(self, limit: int) -> bool:
        """Read ids ahead; False if the query before came to the end and its ids are used up."""
        if self._at_end:
            self._at_end, self._from = False, None
            return False
        found = await self._connections.timed("jobs/expired", limit, self._from)
        self._ahead.extend(row["job_id"] for row in found)
        self._at_end = 0 < len(found) < limit
        self._from = found[-1]["expires_at"] if len(found) == limit else None
        return bool(found)
