"""Removes what was kept long enough, by batches: jobs and flows, ledger rows, acts, operations,
documents, failures and points of series.

Any replica could do it at any moment. It runs under leadership, because one replica that scans
saves the others the scan. The ttl of the lead is three intervals, and each tick extends it.
"""

from __future__ import annotations

from holdfast.background.counters import Swept
from holdfast.background.leader import Leadership
from holdfast.background.options import ReconcileOptions
from holdfast.background.outage import Outage
from holdfast.background.reconciler import AGAIN, Reconciler
from holdfast.background.replicas import Replicas
from holdfast.events import Events
from holdfast.store.contract.store import Store


class RetentionReconciler(Reconciler):
    """Prunes all of that while it leads."""

    name = "retention"

    def __init__(
        self,
        store: Store,
        events: Events,
        options: ReconcileOptions,
        *,
        outage: Outage | None = None,
        replicas: Replicas | None = None,
    ) -> None:
        super().__init__(store, events, options, outage=outage, replicas=replicas)
        self.leadership = Leadership(
            store, events, self.name, options.owner, ttl=3 * options.retention
        )

    @property
    def interval(self) -> float:
        return self.options.retention

    @property
    def pace(self) -> float:
        """The leader prunes once per interval. The others ask for the lead less often."""
        return self.interval if self.leadership.held else super().pace

    async def step(self, cursor: str | None) -> tuple[Swept, str | None]:
        if not await self.leadership.ensure():
            return Swept(), None
        batch = self.options.batch
        jobs = await self.store.jobs.prune(batch)
        plans = await self.store.schedules.prune_ledger(batch)
        acts = await self.store.audit.prune(batch, self.options.audit_kept)
        operations = await self.store.operations.prune(batch, self.options.operations_kept)
        documents = await self.store.shelf.prune(batch)
        kept_for, most = self.options.failures_kept, self.options.most_failures
        failures = await self.store.failures.prune(batch, kept_for, most)
        points = await self.store.telemetry.prune_measures(batch)
        flows = await self.store.flows.prune(batch)
        gone = (jobs, plans, acts, operations, documents, failures, points, flows)
        more = AGAIN if max(gone) >= batch else None
        return Swept(found=sum(gone), mended=sum(gone)), more

    async def close(self) -> None:
        await self.leadership.resign()
