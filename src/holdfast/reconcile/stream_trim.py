"""Removes frames of live streams when they are a minute old.

A worker that writes to a live stream keeps only its newest frames. But when its job has ended, or
writes nothing more, nobody else would remove those.
"""

from __future__ import annotations

from holdfast.background.counters import Swept
from holdfast.background.reconciler import AGAIN, Reconciler


class StreamTrimReconciler(Reconciler):
    """Removes rows of frames, some hundred at a time."""

    name = "stream_trim"

    @property
    def interval(self) -> float:
        return self.options.stream_trim

    async def step(self, cursor: str | None) -> tuple[Swept, str | None]:
        gone = await self.store.streams.trim(self.options.live_kept, self.options.batch)
        return Swept(found=gone, mended=gone), AGAIN if gone >= self.options.batch else None
