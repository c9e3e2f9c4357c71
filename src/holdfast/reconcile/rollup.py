"""Rolls the minutes that are over up into points of larger steps, so that any span of time can be
read from a few rows.

It mends nothing: a series reads the same before it as after it. Any replica may roll up at any
moment, and each minute is added once.
"""

from __future__ import annotations

from holdfast.background.counters import Swept
from holdfast.background.reconciler import AGAIN, Reconciler

ROLLED_BATCH = 10
"""Minutes in one step: a fleet that was away for a day has many to roll up."""


class RollupReconciler(Reconciler):
    """Rolls minutes up."""

    name = "rollup"

    @property
    def interval(self) -> float:
        return self.options.rollup

    async def step(self, cursor: str | None) -> tuple[Swept, str | None]:
        rolled = await self.store.telemetry.roll_up(ROLLED_BATCH)
        return Swept(), AGAIN if rolled >= ROLLED_BATCH else None
