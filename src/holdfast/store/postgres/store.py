"""A store on Postgres, bundled from its nouns."""

from __future__ import annotations

import os
from datetime import datetime

from holdfast.clock import Clock, SystemClock
from holdfast.errors import BadOption
from holdfast.store.contract.audit import Audit
from holdfast.store.contract.failures import Failures
from holdfast.store.contract.flows import Flows
from holdfast.store.contract.health import Health
from holdfast.store.contract.jobs import Jobs
from holdfast.store.contract.limits import Limits
from holdfast.store.contract.operations import Operations
from holdfast.store.contract.queues import Queues
from holdfast.store.contract.records import Capability
from holdfast.store.contract.schedules import Schedules
from holdfast.store.contract.signals import Signals
from holdfast.store.contract.steps import Steps
from holdfast.store.contract.streams import Streams
from holdfast.store.contract.telemetry import Telemetry
from holdfast.store.contract.wakeups import Wakeups
from holdfast.store.contract.workers import Workers
from holdfast.store.postgres.audit import PostgresAudit
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.failures import PostgresFailures
from holdfast.store.postgres.flows import PostgresFlows
from holdfast.store.postgres.health import PostgresHealth
from holdfast.store.postgres.jobs import PostgresJobs
from holdfast.store.postgres.limits import PostgresLimits
from holdfast.store.postgres.operations import PostgresOperations
from holdfast.store.postgres.options import Options
from holdfast.store.postgres.queues import PostgresQueues
from holdfast.store.postgres.schedules import PostgresSchedules
from holdfast.store.postgres.schema import Schema
from holdfast.store.postgres.shelf import PostgresShelf
from holdfast.store.postgres.signals import PostgresSignals
from holdfast.store.postgres.steps import PostgresSteps
from holdfast.store.postgres.streams import PostgresStreams
from holdfast.store.postgres.telemetry import PostgresTelemetry
from holdfast.store.postgres.wakeups import PostgresWakeups
from holdfast.store.postgres.workers import PostgresWorkers

AUTO_MIGRATE = "HOLDFAST_AUTO_MIGRATE"


class PostgresStore:
    """See `holdfast.store.contract.store.Store`; `options` describes the URL.

    `role` is part of the connections' name, so that an operator sees in
    `pg_stat_activity` what each of them is for.
    """

    kind: str = "postgres"
    capabilities: frozenset[Capability] = frozenset(Capability) - {Capability.HAND_OVER}
    durability: str = (
        "an acknowledged write survives a crash of the server, as far as its settings "
        "fsync and synchronous_commit promise"
    )

    def __init__(self, url: str, *, clock: Clock | None = None, role: str = "store") -> None:
        self._url = url
        self._clock = clock or SystemClock()
        self._connections = Connections(Options.of(url), self._clock, role)
        self._schema = Schema(self._connections)
        self._listener = PostgresWakeups(self._connections)
        self.jobs: Jobs = PostgresJobs(self._connections)
        self.queues: Queues = PostgresQueues(self._connections)
        self.workers: Workers = PostgresWorkers(self._connections)
        self.schedules: Schedules = PostgresSchedules(self._connections)
        self.flows: Flows = PostgresFlows(self._connections)
        self.steps: Steps = PostgresSteps(self._connections)
        self.signals: Signals = PostgresSignals(self._connections)
        self.streams: Streams = PostgresStreams(self._connections)
        self.limits: Limits = PostgresLimits(self._connections)
        self.audit: Audit = PostgresAudit(self._connections)
        self.operations: Operations = PostgresOperations(self._connections)
        self.shelf = PostgresShelf(self._connections)
        self.telemetry: Telemetry = PostgresTelemetry(self._connections)
        self.failures: Failures = PostgresFailures(self._connections)
        self.wakeups: Wakeups = self._listener
        self.health: Health = PostgresHealth(self._connections, self._schema)

    async def open(self) -> None:
        """Connect, and require a current schema; migrate first only if the environment says so."""
        await self._connections.open()
        try:
            if os.environ.get(AUTO_MIGRATE, "").lower() in {"1", "true", "yes", "on"}:
                await self._schema.migrate()
            await self._require_usable()
        except BaseException:
            await self._connections.close()
            raise

    async def _require_usable(self) -> None:
        """The schema must be this program's. And claims lock first and look then: under a snapshot
        of the whole transaction they would count what others have changed meanwhile as it was
        before."""
        found = await self._connections.fetch("store/opening")
        self._schema.require_current({row["version"]: row["checksum"] for row in found})
        isolation = found[0]["isolation"]
        if isolation != "read committed":
            raise BadOption(
                "default_transaction_isolation of the database", "read committed", isolation
            )

    async def close(self) -> None:
        await self._listener.close()
        await self._connections.close()

    def sibling(self) -> PostgresStore:
        return PostgresStore(self._url, clock=self._clock, role="heartbeat")

    async def now(self) -> datetime:
        found: datetime = (await self._connections.timed("store/now"))[0][0]
        return found

    async def migrate(self) -> list[str]:
        """Works on a store that is not open yet: an empty database cannot be opened."""
        was_open = self._connections.is_open
        await self._connections.open()
        try:
            return await self._schema.migrate()
        finally:
            if not was_open:
                await self._connections.close()

    async def drop(self) -> None:
        """Remove the schema with everything in it; the store need not be open."""
        was_open = self._connections.is_open
        await self._connections.open()
        try:
            await self._connections.fetch("store/drop")
        finally:
            if not was_open:
                await self._connections.close()

    def migration_sql(self) -> str:
        return self._schema.sql()
