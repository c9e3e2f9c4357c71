"""Removes what was kept long enough, by batches: jobs and flows, ledger rows, acts, operations,
documents, failures and points of series.

Any replica could do it at any moment. It runs under leadership, because one replica that scans
saves the others the scan.
"""

from __future__ import annotations

from holdfast.background.counters import Swept
from holdfast.background.led import LedReconciler
from holdfast.background.reconciler import AGAIN


class RetentionReconciler(LedReconciler):
    """Prunes all of that while it leads."""

    name = "retention"

    @property
    def interval(self) -> float:
        return self.options.retention

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
