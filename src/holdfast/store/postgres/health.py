"""What Postgres can tell about the health of the store. Each check is bounded in its cost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

from holdfast.store.contract.health import Finding, Looked, Severity, tell_nobody
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.pool import Record
from holdfast.store.postgres.schema import KNOWN, Schema

JOBS_SAMPLED = 2_000  # of the oldest, and as many of the newest
JOBS_AT_ONCE = 20_000
"""So many jobs a deep examination looks at in one statement: a long one holds back vacuum."""
BEFORE_ALL, AFTER_ALL = str(UUID(int=0)), str(UUID(int=2**128 - 1))
OLD_SNAPSHOT_SECONDS = 300.0
MANY_DEAD_ROWS = 50_000
FEW_CONNECTIONS_LEFT = 10
OLDEST_SERVER_VERSION = 140_000

Range = tuple[str, str]
"""Jobs with an id above the first, and not above the second."""

_OF_PLACES = (
    (
        "jobs without a place",
        "they will never run: requeue is not possible, enqueue them again",
    ),
    (
        "jobs in two places",
        "something other than holdfast wrote to its tables; remove the wrong row",
    ),
    (
        "rows without a job",
        "something other than holdfast removed the body; remove the row too",
    ),
    (
        "happenings without a job",
        "something other than holdfast removed the jobs; remove these rows too",
    ),
    (
        "steps or frames without a job",
        "something other than holdfast removed the jobs; remove these rows too",
    ),
)
"""What `health/check_places` counts, and what to do about it."""

OK, WARNING, PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM


class PostgresHealth:
    """See `holdfast.store.contract.health.Health` for what the verb promises."""

    def __init__(self, connections: Connections, schema: Schema) -> None:
        self._connections = connections
        self._schema = schema

    async def check(self, *, deep: bool = False, looked: Looked = tell_nobody) -> list[Finding]:
        return [
            *await self._version(),
            *await self._places(self._whole() if deep else self._ends(), looked),
            *await self._leases(),
            *await self._bloat(),
            *await self._snapshots(),
            *await self._server(),
        ]

    async def repair(self, looked: Looked = tell_nobody) -> int:
        """The row of a job is its only place, so nothing can disagree with it."""
        return 0

    async def _version(self) -> list[Finding]:
        version = await self._schema.version()
        return [Finding("schema", OK, f"version {version} of {KNOWN[-1].version}")]

    async def _places(self, ranges: AsyncIterator[Range], looked: Looked) -> list[Finding]:
        """A job belongs in exactly one place."""
        jobs, wrong = 0, [0] * len(_OF_PLACES)
        async for low, high in ranges:
            [(number, *some)] = await self._connections.fetch("health/check_places", low, high)
            jobs += number
            wrong = [so_far + more for so_far, more in zip(wrong, some, strict=True)]
            looked(jobs)
        return [
            _judge(check, count, f"of {jobs:,} looked at", advice)
            for (check, advice), count in zip(_OF_PLACES, wrong, strict=True)
        ]

    async def _ends(self) -> AsyncIterator[Range]:
        """The oldest and the newest jobs; all of them, if there are few."""
        first = await self._one("health/last_of_range", BEFORE_ALL, JOBS_SAMPLED - 1)
        yield BEFORE_ALL, first or AFTER_ALL
        if first is not None:
            newest = await self._one("health/before_newest", JOBS_SAMPLED)
            yield max(first, newest or BEFORE_ALL), AFTER_ALL

    async def _whole(self) -> AsyncIterator[Range]:
        low: str | None = BEFORE_ALL
        while low is not None:
            high = await self._one("health/last_of_range", low, JOBS_AT_ONCE - 1)
            yield low, high or AFTER_ALL
            low = high

    async def _one(self, verb: str, *values: object) -> str | None:
        for (job_id,) in await self._connections.fetch(verb, *values):
            return str(job_id)
        return None

    async def _leases(self) -> list[Finding]:
        found = await self._connections.timed("health/check_leases")
        orphans = found[0][0]
        if not orphans:
            return [Finding("orphaned leases", OK, "none")]
        advice = "a running worker reclaims them; start one if none is up"
        return [Finding("orphaned leases", WARNING, f"{orphans} without a live worker", advice)]

    async def _bloat(self) -> list[Finding]:
        schema = self._connections.options.schema
        return [_bloat(row) for row in await self._connections.fetch("health/check_bloat", schema)]

    async def _snapshots(self) -> list[Finding]:
        found = await self._connections.fetch("health/check_snapshots")
        if not found or found[0]["seconds"] < OLD_SNAPSHOT_SECONDS:
            return [Finding("oldest transaction", OK, "none older than 5 minutes")]
        old = found[0]
        saw = f"{old['seconds']:.0f} s, pid {old['pid']}, {old['application_name']!r}"
        advice = "it holds back vacuum and slows claims: end that transaction"
        return [Finding("oldest transaction", WARNING, saw, advice)]

    async def _server(self) -> list[Finding]:
        row = (await self._connections.fetch("health/check_server"))[0]
        return [_release(row), _durability(row), _head_room(row)]


def _judge(check: str, count: int, of: str, advice: str) -> Finding:
    if not count:
        return Finding(check, OK, f"none {of}")
    return Finding(check, PROBLEM, f"{count} {of}", advice)


def _bloat(row: Record) -> Finding:
    check = f"dead rows in {row['relname']}"
    saw = f"{row['dead']} dead, {row['live']} live, last vacuum {row['vacuumed'] or 'never'}"
    if row["dead"] < max(MANY_DEAD_ROWS, row["live"]):
        return Finding(check, OK, saw)
    advice = "look for old transactions, and whether autovacuum runs often enough"
    return Finding(check, WARNING, saw, advice)


def _release(row: Record) -> Finding:
    if row["number"] >= OLDEST_SERVER_VERSION:
        return Finding("server version", OK, row["version"])
    return Finding("server version", PROBLEM, row["version"], "upgrade to Postgres 14 or later")


def _durability(row: Record) -> Finding:
    saw = f"fsync {row['fsync']}, synchronous_commit {row['synchronous_commit']}"
    if row["fsync"] == "off":
        return Finding("durability", WARNING, saw, "turn fsync on: a crash loses or corrupts jobs")
    if row["synchronous_commit"] == "off":
        advice = "a crash loses the last fraction of a second of acknowledged enqueues"
        return Finding("durability", WARNING, saw, advice)
    return Finding("durability", OK, saw)


def _head_room(row: Record) -> Finding:
    saw = f"{row['used']} of {row['allowed']} in use"
    if row["allowed"] - row["used"] > FEW_CONNECTIONS_LEFT:
        return Finding("connections", OK, saw)
    return Finding("connections", WARNING, saw, "raise max_connections, or lower pool_size")
