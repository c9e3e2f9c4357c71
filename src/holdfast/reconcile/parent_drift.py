"""Ends suspended jobs whose flow is over, if nothing else did.

It is a net that must find nothing: the transaction that ends a flow writes the errand that ends its
parent, and the errand is kept until that is done.

A sweep looks at some hundred jobs, and the next one goes on behind it: there may be a hundred
thousand that sleep or wait for somebody.
"""

from __future__ import annotations

from holdfast.background.counters import Swept
from holdfast.background.reconciler import Reconciler
from holdfast.flow.parents import end_parent, stranded
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter

SUSPENDED = JobFilter(states=frozenset({JobState.SUSPENDED}))


class ParentDriftReconciler(Reconciler):
    """Looks at some suspended jobs, in turn. One that cannot be ended hides no other."""

    name = "parent_drift"
    _behind: str | None = None

    @property
    def interval(self) -> float:
        return self.options.parent_drift

    async def step(self, cursor: str | None) -> tuple[Swept, str | None]:
        if not await self.store.jobs.count(SUSPENDED):  # one question, where a page is several
            return Swept(), None
        page = await self.store.jobs.page(SUSPENDED, self.options.batch, self._behind)
        self._behind = page.next_cursor
        swept, blamed = Swept(), dict[JobId, Exception]()
        for job in await stranded(self.store, page.jobs):
            swept += await self._end(job, blamed)
        self.report_blamed(blamed)
        return swept, None

    async def _end(self, job: JobId, blamed: dict[JobId, Exception]) -> Swept:
        if self.failures.skips(job):
            return Swept(skipped=1)
        self.events.error("flow.parent_stranded", job_id=job)
        try:
            is_ended = await end_parent(self.store, job)
        except Exception as error:  # noqa: BLE001 - counted and reported; the others go on
            blamed[job] = error
            return Swept(found=1, failed=1)
        self.failures.succeeded(job)
        return Swept(found=1, mended=int(is_ended), refused=int(not is_ended))
