"""`SqliteStore`: the SQLite backend's implementation of the contract, put together."""

from __future__ import annotations

from datetime import datetime

from holdfast.clock import Clock, SystemClock
from holdfast.store.contract.records import Capability
from holdfast.store.migrate import load_migrations
from holdfast.store.sqlite.audit import SqliteAudit
from holdfast.store.sqlite.failures import SqliteFailures
from holdfast.store.sqlite.flows import SqliteFlows
from holdfast.store.sqlite.health import SqliteHealth
from holdfast.store.sqlite.jobs import SqliteJobs
from holdfast.store.sqlite.limits import SqliteLimits
from holdfast.store.sqlite.operations import SqliteOperations
from holdfast.store.sqlite.options import Location
from holdfast.store.sqlite.queues import SqliteQueues
from holdfast.store.sqlite.rows import to_datetime
from holdfast.store.sqlite.schedules import SqliteSchedules
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.shelf import SqliteShelf
from holdfast.store.sqlite.signals import SqliteSignals
from holdfast.store.sqlite.steps import SqliteSteps
from holdfast.store.sqlite.streams import SqliteStreams
from holdfast.store.sqlite.telemetry import SqliteTelemetry
from holdfast.store.sqlite.workers import SqliteWorkers
from holdfast.store.sqlite.writer import Writer


class SqliteStore:
    """One SQLite file, or one database in memory that lives as long as the store is open."""

    kind = "sqlite"

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        writer: Writer | None = None,
        may_create: bool = True,
    ) -> None:
        self._url = url
        self._clock = clock or SystemClock()
        self._writer = writer or Writer(Location.parse(url), self._clock)
        location = self._writer.location
        self._opened = False
        self._may_create = may_create
        self.durability = location.durability
        in_memory = location.path is None
        alone = frozenset({Capability.QUEUE_TOTALS, Capability.HAND_OVER})
        self.capabilities = alone if in_memory else frozenset(Capability)
        self.jobs = SqliteJobs(self._writer)
        self.queues = SqliteQueues(self._writer)
        self.workers = SqliteWorkers(self._writer)
        self.schedules = SqliteSchedules(self._writer)
        self.flows = SqliteFlows(self._writer)
        self.steps = SqliteSteps(self._writer)
        self.signals = SqliteSignals(self._writer)
        self.streams = SqliteStreams(self._writer)
        self.limits = SqliteLimits(self._writer)
        self.audit = SqliteAudit(self._writer)
        self.operations = SqliteOperations(self._writer)
        self.shelf = SqliteShelf(self._writer)
        self.telemetry = SqliteTelemetry(self._writer)
        self.failures = SqliteFailures(self._writer)
        self.wakeups = self._writer.wakeups
        self.health = SqliteHealth(self._writer)

    async def open(self) -> None:
        if self._opened:
            return
        self._writer.retain()
        self._opened = True
        try:
            await self._writer.prepare(may_create=self._may_create)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        if self._opened:
            self._opened = False
            self._writer.release()

    def sibling(self) -> SqliteStore:
        """The sibling opens a file anew. A database in memory has one connection, and the sibling
        shares it."""
        shared = self._writer
        if shared.location.path is not None:
            shared = Writer(shared.location, self._clock, is_sibling=shared.is_there)
        return SqliteStore(self._url, clock=self._clock, writer=shared)

    async def now(self) -> datetime:
        return to_datetime(self._writer.now())

    async def migrate(self) -> list[str]:
        """`open` does this too. A store that is not open is opened for as long as this takes."""
        self._writer.retain()
        try:
            return await self._writer.migrate()
        finally:
            self._writer.release()

    def migration_sql(self) -> str:
        """A script that, run by hand, leaves the same file as `open`, with its record of
        migrations."""
        sql = steps("store/migrate")
        parts = [f"{sql['create']};"]
        for migration in load_migrations(__package__):
            record = sql["record by hand"]
            for field in ("version", "name", "checksum"):
                record = record.replace(f"{{{{{field}}}}}", str(getattr(migration, field)))
            parts += [migration.sql, f"{record};"]
        return "\n\n".join(["begin;", *parts, "commit;", ""])
