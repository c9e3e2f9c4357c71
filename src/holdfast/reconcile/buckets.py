"""Recounts buckets of limits, and forgets those that hold nothing.

It is a net that must find nothing: the write that begins an attempt counts it, and the write that
ends the lease gives back what it counted. A difference is an error that is told, and corrected.
"""

from __future__ import annotations

from holdfast.background.counters import Swept
from holdfast.background.reconciler import Reconciler


class BucketsReconciler(Reconciler):
    """Compares buckets with the leases that name them, some hundred at a time."""

    name = "buckets"

    @property
    def interval(self) -> float:
        return self.options.buckets

    async def step(self, cursor: str | None) -> tuple[Swept, str | None]:
        recounted = await self.store.limits.recount(self.options.batch, cursor)
        for one in recounted.wrong:
            self.events.error(
                "limit.miscounted", bucket=one.bucket, counted=one.counted, held=one.held
            )
        wrong = len(recounted.wrong)
        return Swept(found=wrong, mended=wrong), recounted.cursor
