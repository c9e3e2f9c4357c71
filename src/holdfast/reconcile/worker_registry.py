"""Removes the rows of workers that lapsed a while ago and hold no job any more.

They are kept for that while so that an operator can see who died.
"""

from __future__ import annotations

from holdfast.background.counters import Tally
from holdfast.background.reconciler import AGAIN, Reconciler


class WorkerRegistry(Reconciler):
    name = "worker_registry"

    @property
    def interval(self) -> float:
        return self.options.worker_registry

    async def step(self, cursor: str | None) -> tuple[Tally, str | None]:
        swept = await self.store.workers.sweep(self.options.batch, self.options.worker_kept)
        more = AGAIN if swept >= self.options.batch else None
        return Tally(found=swept, mended=swept), more
