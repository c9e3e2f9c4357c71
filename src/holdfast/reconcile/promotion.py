"""Makes ready what is due: delayed jobs, retries, suspended jobs whose timer ended.

It sleeps until the next due time, which the store tells with each batch, and is
woken when something is scheduled that may be due sooner.
"""

from __future__ import annotations

from holdfast.reconcile.counters import Tally
from holdfast.reconcile.reconciler import AGAIN, Reconciler


class Promotion(Reconciler):
    name = "promotion"
    on_due = True

    _next_due_in: float | None = None

    @property
    def interval(self) -> float:
        return self.options.promotion

    async def step(self, cursor: str | None) -> tuple[Tally, str | None]:
        promoted = await self.store.jobs.promote_due(self.options.batch)
        self._next_due_in = promoted.next_due_in
        more = AGAIN if promoted.count >= self.options.batch else None
        return Tally(found=promoted.count, mended=promoted.count), more

    async def due_in(self) -> float | None:
        return self._next_due_in
