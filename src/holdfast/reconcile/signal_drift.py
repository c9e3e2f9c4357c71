"""Wakes suspended jobs whose signal is kept, if nothing else did.

It is a net that must find nothing: whoever suspends a job looks for the signals that it waits for,
and whoever sends a signal looks for the wait, and neither can miss the other.
"""

from __future__ import annotations

from holdfast.background.counters import Swept
from holdfast.background.reconciler import Reconciler
from holdfast.store.contract.signals import overlooked, wait_cursor


class SignalDriftReconciler(Reconciler):
    """Looks at jobs that wait for signals, some hundred at a time."""

    name = "signal_drift"

    @property
    def interval(self) -> float:
        return self.options.signal_drift

    async def step(self, cursor: str | None) -> tuple[Swept, str | None]:
        waits = await self.store.signals.waits(self.options.batch, cursor)
        following = wait_cursor(waits[-1]) if len(waits) == self.options.batch else None
        found = await overlooked(self.store.signals, waits)
        if not found:
            return Swept(), following
        woken = await self.store.signals.wake(found)
        for job in woken:
            self.events.error("job.signal_overlooked", job_id=job)
        refused = len(found) - len(woken)
        return Swept(found=len(found), mended=len(woken), refused=refused), following
