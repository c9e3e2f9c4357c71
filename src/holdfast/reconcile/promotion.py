"""Makes due jobs ready: delayed jobs, retries, suspended jobs whose timer ended.

It sleeps until the next due time, which the store gives with each batch, and is woken when a job is
scheduled that may be due sooner. While the store's wakeups do not arrive, it tells the workers of
its own process which queues have work now. If the store cannot promote a batch, the due jobs are
read in pages and each page is halved until the job that causes the error is alone. The others are
promoted in the same sweep.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.background.counters import Swept
from holdfast.background.reconciler import AGAIN, Reconciler
from holdfast.errors import StoreRefuses, StoreUnavailable
from holdfast.job.ids import JobId
from holdfast.store.contract.wakeups import Topic, Wakeup

SET_ASIDE_SECONDS = 1.0
"""The time between two sweeps while a job rests because it cannot be promoted. That job stays due,
so the store's next due time is of no use then."""


class PromotionReconciler(Reconciler):
    """Promotes batch by batch, and job by job where a batch fails."""

    name = "promotion"
    on_due = True

    _next_due_in: float | None = None

    @property
    def interval(self) -> float:
        return self.options.promotion

    async def step(self, cursor: str | None) -> tuple[Swept, str | None]:
        """A cursor with an id continues the pages of a sweep whose batch failed."""
        if cursor:
            return await self._step_by_page(cursor)
        try:
            promoted = await self.store.jobs.promote_due(self.options.batch)
        except (StoreUnavailable, StoreRefuses):
            raise
        except Exception:  # noqa: BLE001 - the job that causes it is found and reported
            return await self._step_by_page(None)
        self._next_due_in = promoted.next_due_in
        if not self.store.wakeups.hears:
            for queue in promoted.queues:
                self.store.wakeups.tell(Wakeup(Topic.READY, queue))
        more = AGAIN if promoted.count >= self.options.batch else None
        return Swept(found=promoted.count, mended=promoted.count), more

    async def due_in(self) -> float | None:
        return self._next_due_in

    async def _step_by_page(self, after: str | None) -> tuple[Swept, str | None]:
        self._next_due_in = SET_ASIDE_SECONDS
        page = await self.store.jobs.due(self.options.batch, after)
        tried = [job_id for job_id in page if not self.failures.skips(job_id)]
        blamed: dict[JobId, Exception] = {}
        mended = await self._promote(tried, blamed)
        self.report_blamed(blamed)
        skipped = len(page) - len(tried)
        tally = Swept(found=len(page), mended=mended, failed=len(blamed), skipped=skipped)
        return tally, page[-1] if len(page) >= self.options.batch else None

    async def _promote(self, ids: Sequence[JobId], blamed: dict[JobId, Exception]) -> int:
        if not ids:
            return 0
        try:
            return await self.store.jobs.promote(ids)
        except (StoreUnavailable, StoreRefuses):
            raise
        except Exception as error:  # noqa: BLE001 - reported when it is alone
            if len(ids) == 1:
                blamed[ids[0]] = error
                return 0
        half = len(ids) // 2
        return await self._promote(ids[:half], blamed) + await self._promote(ids[half:], blamed)
