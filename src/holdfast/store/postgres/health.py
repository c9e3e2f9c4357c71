"""What Postgres can tell about the health of the store. Each check is bounded in its cost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from holdfast.store.contract.health import Finding, Severity
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.pool import Record
from holdfast.store.postgres.schema import KNOWN, Schema

BODIES_SAMPLED = 2_000  # of the oldest, and as many of the newest
OLD_SNAPSHOT_SECONDS = 300.0
MANY_DEAD_ROWS = 50_000
FEW_CONNECTIONS_LEFT = 10
OLDEST_SERVER_VERSION = 140_000

OK, WARNING, PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM


class PostgresHealth:
    """See `holdfast.store.contract.health.Health` for what the verb promises."""

    def __init__(self, connections: Connections, schema: Schema) -> None:
        self._connections = connections
        self._schema = schema

    async def check(self, *, deep: bool = False) -> list[Finding]:
        checks: list[Callable[[], Awaitable[list[Finding]]]] = [
            self._version,
            self._places,
            self._leases,
            self._bloat,
            self._snapshots,
            self._server,
        ]
        return [finding for check in checks for finding in await check()]

    async def _version(self) -> list[Finding]:
        version = await self._schema.version()
        return [Finding("schema", OK, f"version {version} of {KNOWN[-1].version}")]

    async def _places(self) -> list[Finding]:
        """A job belongs in exactly one place. The oldest and the newest bodies are checked."""
        found = await self._connections.fetch("health/check_places", BODIES_SAMPLED)
        [(checked, nowhere, twice, bodiless, lifeless, jobless)] = found
        return [
            _judge(
                "jobs without a place",
                nowhere,
                f"of {checked} looked at",
                "they will never run: requeue is not possible, enqueue them again",
            ),
            _judge(
                "jobs in two places",
                twice,
                f"of {checked} looked at",
                "something other than holdfast wrote to its tables; remove the wrong row",
            ),
            _judge(
                "rows without a job",
                bodiless,
                "among the oldest and newest",
                "something other than holdfast removed the body; remove the row too",
            ),
            _judge(
                "happenings without a job",
                lifeless,
                "among the oldest and newest",
                "something other than holdfast removed the jobs; remove these rows too",
            ),
            _judge(
                "steps or frames without a job",
                jobless,
                "among the oldest and newest",
                "something other than holdfast removed the jobs; remove these rows too",
            ),
        ]

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
