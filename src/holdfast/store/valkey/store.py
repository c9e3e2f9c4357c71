"""A store on Valkey or Redis, bundled from its nouns."""

from __future__ import annotations

import logging
from datetime import datetime

from holdfast.clock import Clock, SystemClock
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
from holdfast.store.contract.shelf import Shelf
from holdfast.store.contract.signals import Signals
from holdfast.store.contract.steps import Steps
from holdfast.store.contract.streams import Streams
from holdfast.store.contract.telemetry import Telemetry
from holdfast.store.contract.wakeups import Wakeups
from holdfast.store.contract.workers import Workers
from holdfast.store.valkey.audit import ValkeyAudit
from holdfast.store.valkey.clients import Client
from holdfast.store.valkey.connection import Connections
from holdfast.store.valkey.failures import ValkeyFailures
from holdfast.store.valkey.flows import ValkeyFlows
from holdfast.store.valkey.health import ValkeyHealth
from holdfast.store.valkey.jobs import ValkeyJobs
from holdfast.store.valkey.limits import ValkeyLimits
from holdfast.store.valkey.marks import Marks
from holdfast.store.valkey.moments import to_datetime
from holdfast.store.valkey.operations import ValkeyOperations
from holdfast.store.valkey.options import Options
from holdfast.store.valkey.queues import ValkeyQueues
from holdfast.store.valkey.schedules import ValkeySchedules
from holdfast.store.valkey.schema import NAME, VERSION, Schema
from holdfast.store.valkey.server import PROMISES, read_servers, refuse_eviction, weakest
from holdfast.store.valkey.shelf import ValkeyShelf
from holdfast.store.valkey.signals import ValkeySignals
from holdfast.store.valkey.steps import ValkeySteps
from holdfast.store.valkey.streams import ValkeyStreams
from holdfast.store.valkey.telemetry import ValkeyTelemetry
from holdfast.store.valkey.wakeups import ValkeyWakeups
from holdfast.store.valkey.workers import ValkeyWorkers

log = logging.getLogger("holdfast.store.valkey")


class ValkeyStore:
    """See `holdfast.store.contract.store.Store`; `options` describes the URL.

    `role` is part of the name of each connection, so that an operator sees in CLIENT LIST what the
    connection is for.
    """

    kind: str = "valkey"

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        role: str = "store",
        marks: Marks | None = None,
    ) -> None:
        self._url = url
        self._clock = clock or SystemClock()
        self._is_sibling = role != "store"
        self._connections = Connections(Options.of(url), self._clock, role, marks)
        self.capabilities = frozenset({Capability.MANY_PROCESSES})
        if self._connections.options.partitions == 1:
            self.capabilities |= {Capability.QUEUE_TOTALS}
        self._schema = Schema(self._connections)
        self._listener = ValkeyWakeups(self._connections)
        self.durability: str = "as the server's settings promise, which opening the store reads"
        self.jobs: Jobs = ValkeyJobs(self._connections)
        self.queues: Queues = ValkeyQueues(self._connections)
        self.workers: Workers = ValkeyWorkers(self._connections)
        self.schedules: Schedules = ValkeySchedules(self._connections)
        self.flows: Flows = ValkeyFlows(self._connections)
        self.steps: Steps = ValkeySteps(self._connections)
        self.signals: Signals = ValkeySignals(self._connections)
        self.streams: Streams = ValkeyStreams(self._connections)
        self.limits: Limits = ValkeyLimits(self._connections)
        self.audit: Audit = ValkeyAudit(self._connections)
        self.operations: Operations = ValkeyOperations(self._connections)
        self.shelf: Shelf = ValkeyShelf(self._connections)
        self.telemetry: Telemetry = ValkeyTelemetry(self._connections)
        self.failures: Failures = ValkeyFailures(self._connections)
        self.wakeups: Wakeups = self._listener
        self.health: Health = ValkeyHealth(self._connections, self._schema)

    async def open(self) -> None:
        """Connect, refuse a server that may forget jobs, and record the layout in a new store. A
        program that closes its store and opens it again takes what it finds then, as at its start;
        a sibling takes no other store than the one that it is a sibling of."""
        if not (self._is_sibling or self._connections.is_open):
            self._connections.marks.forget()
        await self._connections.open()
        try:
            await self._read_settings()
            await self._schema.migrate()
        except BaseException:
            await self._connections.close()
            raise

    async def _read_settings(self) -> None:
        where = self._connections.options.where
        servers = await read_servers(self._connections)
        refuse_eviction(servers, where)
        promise = weakest(servers)
        self.durability = PROMISES[promise]
        if promise in ("none", "snapshots") and not self._is_sibling:
            log.warning("the server may lose jobs: durability=%s", self.durability)

    async def close(self) -> None:
        await self._listener.close()
        await self._connections.close()

    def sibling(self) -> ValkeyStore:
        marks = self._connections.marks
        return ValkeyStore(self._url, clock=self._clock, role="heartbeat", marks=marks)

    async def now(self) -> datetime:
        return to_datetime(await self._connections.now_micros())

    async def migrate(self) -> list[str]:
        """A store that is not open is opened for this and closed again."""
        was_open = self._connections.is_open
        await self._connections.open()
        try:
            return await self._schema.migrate()
        finally:
            if not was_open:
                await self._connections.close()

    async def drop(self) -> None:
        """Remove the namespace with everything in it. The store need not be open. This walks over
        every key of the server, so it is for demos and tests."""
        was_open = self._connections.is_open
        await self._connections.open()
        try:
            await self._connections.run(self._unlink_all)
            self._connections.marks.forget()
        finally:
            if not was_open:
                await self._connections.close()

    async def _unlink_all(self, client: Client) -> None:
        pattern = f"{{{self._connections.options.namespace}[:}}]*"
        async for key in client.scan_iter(match=pattern, count=1_000):
            await client.execute_command("UNLINK", key)

    def migration_sql(self) -> str:
        """A comment: nothing has to be run by hand, because opening a store records its layout."""
        return f"-- {NAME}: a valkey store has no tables; opening it records version {VERSION}.\n"
