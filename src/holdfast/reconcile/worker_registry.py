"""Removes the rows of workers whose lease lapsed a while ago and that hold no job any more.

A row is kept for `worker_kept` seconds, so that an operator can see which worker died.
"""

from __future__ import annotations

from holdfast.background.counters import Swept
from holdfast.background.reconciler import AGAIN, Reconciler


class WorkerRegistryReconciler(Reconciler):
    """Sweeps the registry of workers."""

    name = "worker_registry"

    @property
    def interval(self) -> float:
        return self.options.worker_registry

    async def step(self, cursor: str | None) -> tuple[Swept, str | None]:
        swept = await self.store.workers.sweep(self.options.batch, self.options.worker_kept)
        more = AGAIN if swept >= self.options.batch else None
        return Swept(found=swept, mended=swept), more
