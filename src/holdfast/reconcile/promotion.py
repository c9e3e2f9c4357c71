"""Makes ready what is due: delayed jobs, retries, suspended jobs whose timer ended.

It sleeps until the next due time, which the store tells with each batch, and is
woken when something is scheduled that may be due sooner. Where wakeups are not heard,
it tells the workers of its own process which queues have work now.
"""

from __future__ import annotations

from holdfast.reconcile.counters import Tally
from holdfast.reconcile.reconciler import AGAIN, Reconciler
from holdfast.store.records import Topic, Wakeup


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
        if not self.store.wakeups.hears:
            for queue in promoted.queues:
                self.store.wakeups.tell(Wakeup(Topic.READY, queue))
        more = AGAIN if promoted.count >= self.options.batch else None
        return Tally(found=promoted.count, mended=promoted.count), more

    async def due_in(self) -> float | None:
        return self._next_due_in
