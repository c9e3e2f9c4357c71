"""Does what flows owe: a crash between a write and its consequence leaves an errand.

Mostly a wakeup brings the reconciler here a moment after the errand was written. The interval is
for errands whose wakeup was lost, or whose doer died.
"""

from __future__ import annotations

import asyncio

from holdfast.background.counters import Swept
from holdfast.background.reconciler import Reconciler
from holdfast.flow.errands import do_errand
from holdfast.flow.model import Errand
from holdfast.job.ids import JobId

LOOK_AGAIN_SECONDS = 0.2


class ErrandsReconciler(Reconciler):
    """Does errands, oldest first. One that fails again and again rests, and hides no other."""

    name = "errands"
    on_errands = True

    @property
    def interval(self) -> float:
        return self.options.errands

    async def step(self, cursor: str | None) -> tuple[Swept, str | None]:
        errands = await self.store.flows.errands(self.options.batch, cursor)
        found = Swept(found=len(errands))
        blamed: dict[JobId, Exception] = {}
        for errand in errands:
            found += await self._do(errand, blamed)
        self.report_blamed(blamed)
        more = errands[-1].id if len(errands) == self.options.batch else None
        return found, more

    async def _do(self, errand: Errand, blamed: dict[JobId, Exception]) -> Swept:
        name = JobId(errand.id)
        if self.failures.skips(name):
            return Swept(skipped=1)
        try:
            is_done = await do_errand(self.store, errand)
        except Exception as error:  # noqa: BLE001 - counted and reported; the others go on
            blamed[name] = error
            return Swept(failed=1)
        self.failures.succeeded(name)
        if not is_done:  # a job runs, or is locked, and will not be for long
            asyncio.get_running_loop().call_later(LOOK_AGAIN_SECONDS, self.wake)
        return Swept(mended=int(is_done))
