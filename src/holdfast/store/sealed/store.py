"""The store that encrypts: it wraps the verbs that carry texts, and hands on all others."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from functools import cached_property

from holdfast.encryption.keyring import Keyring
from holdfast.encryption.sealing import Sealing
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
from holdfast.store.contract.store import Store
from holdfast.store.contract.streams import Streams
from holdfast.store.contract.telemetry import Telemetry
from holdfast.store.contract.wakeups import Wakeups
from holdfast.store.contract.workers import Workers
from holdfast.store.sealed.audit import SealedAudit
from holdfast.store.sealed.failures import SealedFailures
from holdfast.store.sealed.flows import SealedFlows
from holdfast.store.sealed.jobs import SealedJobs
from holdfast.store.sealed.operations import SealedOperations
from holdfast.store.sealed.records import Records
from holdfast.store.sealed.schedules import SealedSchedules
from holdfast.store.sealed.signals import SealedSignals
from holdfast.store.sealed.steps import SealedSteps
from holdfast.store.sealed.streams import SealedStreams


class SealedStore:
    """One store with the keys of a program. `behind` holds what is encrypted, as it is."""

    def __init__(self, behind: Store, keys: Keyring, unencrypted: Collection[str] = ()) -> None:
        self.behind = behind
        self._keys = keys
        self._unencrypted = unencrypted
        self._records = Records(Sealing(keys), unencrypted)

    @cached_property
    def jobs(self) -> Jobs:
        return SealedJobs(self.behind.jobs, self._records)

    @cached_property
    def schedules(self) -> Schedules:
        return SealedSchedules(self.behind.schedules, self._records)

    @cached_property
    def flows(self) -> Flows:
        return SealedFlows(self.behind.flows, self._records)

    @cached_property
    def steps(self) -> Steps:
        return SealedSteps(self.behind.steps, self._records)

    @cached_property
    def signals(self) -> Signals:
        return SealedSignals(self.behind.signals, self._records)

    @cached_property
    def streams(self) -> Streams:
        return SealedStreams(self.behind.streams, self._records)

    @cached_property
    def audit(self) -> Audit:
        return SealedAudit(self.behind.audit, self._records.sealing)

    @cached_property
    def operations(self) -> Operations:
        return SealedOperations(self.behind.operations, self._records.sealing)

    @property
    def limits(self) -> Limits:
        return self.behind.limits

    @property
    def queues(self) -> Queues:
        return self.behind.queues

    @property
    def workers(self) -> Workers:
        return self.behind.workers

    @property
    def telemetry(self) -> Telemetry:
        return self.behind.telemetry

    @cached_property
    def failures(self) -> Failures:
        return SealedFailures(self.behind.failures, self._records)

    @property
    def shelf(self) -> Shelf:
        return self.behind.shelf

    @property
    def wakeups(self) -> Wakeups:
        return self.behind.wakeups

    @property
    def health(self) -> Health:
        return self.behind.health

    @property
    def kind(self) -> str:
        return self.behind.kind

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self.behind.capabilities

    @property
    def durability(self) -> str:
        return self.behind.durability

    async def open(self) -> None:
        await self.behind.open()

    async def close(self) -> None:
        await self.behind.close()

    def sibling(self) -> SealedStore:
        return SealedStore(self.behind.sibling(), self._keys, self._unencrypted)

    async def now(self) -> datetime:
        return await self.behind.now()

    async def migrate(self) -> list[str]:
        return await self.behind.migrate()

    def migration_sql(self) -> str:
        return self.behind.migration_sql()
