"""Does what flows owe: a crash between a write and its consequence leaves an errand.

Mostly a wakeup brings the reconciler here a moment after the errand was written. The polls of
workers tell of errands whose wakeup was lost, or whose doer died.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from holdfast.background.counters import Swept
from holdfast.background.options import ReconcileOptions
from holdfast.background.reconciler import Reconciler
from holdfast.events import Events
from holdfast.flow.errands import do_errand
from holdfast.flow.model import Errand
from holdfast.job.ids import JobId
from holdfast.store.contract.store import Store

LOOK_AGAIN_SECONDS = 0.2
KEPT_SECONDS = 1.0
"""How long a batch tries errands again that could not be done before. Each may wait a quarter of a
second for a flow that somebody's open transaction has locked."""


class ErrandsReconciler(Reconciler):
    """Does errands, oldest first. One that fails again and again rests, and hides no other. What
    could not be done yet is tried again behind all others of its batch."""

    name = "errands"
    on_errands = True

    def __init__(
        self, store: Store, events: Events, options: ReconcileOptions, **shared: Any
    ) -> None:
        super().__init__(store, events, options, **shared)
        # Errands that could not be done yet. The one that was tried last stands behind the others.
        self._kept: dict[str, None] = {}

    @property
    def interval(self) -> float:
        return self.options.errands

    async def step(self, cursor: str | None) -> tuple[Swept, str | None]:
        errands = await self.store.flows.errands(self.options.batch, cursor)
        more = errands[-1].id if len(errands) == self.options.batch else None
        by_id = {errand.id: errand for errand in errands}
        if cursor is None and more is None:  # these are all there are
            self._kept = {name: None for name in self._kept if name in by_id}
        kept = [by_id.pop(name) for name in self._kept if name in by_id]
        found, blamed = Swept(found=len(errands)), dict[JobId, Exception]()
        for errand in by_id.values():
            found += await self._do(errand, blamed)
        give_up = time.monotonic() + KEPT_SECONDS
        for errand in kept:
            if time.monotonic() < give_up:
                found += await self._do(errand, blamed)
        self.report_blamed(blamed)
        return found, more

    async def _do(self, errand: Errand, blamed: dict[JobId, Exception]) -> Swept:
        name = JobId(errand.id)
        self._kept.pop(errand.id, None)
        if self.failures.skips(name):
            return Swept(skipped=1)
        try:
            is_done = await do_errand(self.store, errand)
        except Exception as error:  # noqa: BLE001 - counted and reported; the others go on
            blamed[name] = error
            return Swept(failed=1)
        self.failures.succeeded(name)
        if not is_done:  # a job runs, or is locked, and will not be for long
            self._kept[errand.id] = None
            asyncio.get_running_loop().call_later(LOOK_AGAIN_SECONDS, self.wake)
        return Swept(mended=int(is_done))
