"""Wakes suspended jobs whose signal is kept or whose wait is over, and tells callers what they
called has ended, if nothing else did.

It is a net that must find nothing: whoever suspends a job looks for the signals that it waits for,
whoever sends a signal looks for the wait, and neither can miss the other. The end of a flow writes
the errand to tell its caller. A wait with a timeout has a timer, which `promotion` watches: only a
wait without its timer is found here.

A sweep looks at some hundred waits, and the next one goes on behind it: reading a hundred thousand
every few seconds would be most of what an idle worker does.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from holdfast.background.counters import Swept
from holdfast.background.reconciler import Reconciler
from holdfast.flow.calls import tell_of_end, untold_callers
from holdfast.job.signal import SignalWait
from holdfast.store.contract.signals import overlooked, wait_cursor

OVERDUE_AFTER = timedelta(seconds=5)
"""A wait that is over for less may be on its way."""


class SignalDriftReconciler(Reconciler):
    """Looks at some jobs that wait for signals, in turn."""

    name = "signal_drift"
    _behind: str | None = None

    @property
    def interval(self) -> float:
        return self.options.signal_drift

    async def step(self, cursor: str | None) -> tuple[Swept, str | None]:
        waits = await self.store.signals.waits(self.options.batch, self._behind)
        self._behind = wait_cursor(waits[-1]) if len(waits) == self.options.batch else None
        untold = await self._tell_callers(waits) + await self._end_overdue(waits)
        found = await overlooked(self.store.signals, waits)
        if not found:
            return untold, None
        woken = await self.store.signals.wake(found)
        for job in woken:
            self.events.error("job.signal_overlooked", job_id=job)
        refused = len(found) - len(woken)
        return untold + Swept(found=len(found), mended=len(woken), refused=refused), None

    async def _tell_callers(self, waits: Sequence[SignalWait]) -> Swept:
        found = await untold_callers(self.store, waits)
        for wait, flow in found:
            self.events.error("job.caller_untold", job_id=wait.id, flow=flow)
            await tell_of_end(self.store, flow, wait.id)
        return Swept(found=len(found), mended=len(found))

    async def _end_overdue(self, waits: Sequence[SignalWait]) -> Swept:
        """A wait may be overdue because all workers were away. Then its job still has the timer."""
        timed = {wait.id: wait.until for wait in waits if wait.until is not None}
        if not timed:
            return Swept()
        before = await self.store.now() - OVERDUE_AFTER
        late = [job for job, until in timed.items() if until < before]
        found = [job.id for job in await self.store.jobs.get(late) if job.due_at is None]
        ended = await self.store.jobs.resume(found) if found else []
        for job in ended:
            self.events.error("job.wait_overdue", job_id=job)
        return Swept(found=len(found), mended=len(ended), refused=len(found) - len(ended))
