"""Folds the counts that moves of jobs leave behind, so that reading the books stays cheap.

It mends nothing: the books are as right before it as after it. Any replica may fold at any moment.
"""

from __future__ import annotations

from holdfast.background.counters import Swept
from holdfast.background.reconciler import AGAIN, Reconciler

FOLD_BATCH = 5_000


class TallyReconciler(Reconciler):
    """Folds moves into tallies, totals and minutes."""

    name = "tally"

    @property
    def interval(self) -> float:
        return self.options.tally

    async def step(self, cursor: str | None) -> tuple[Swept, str | None]:
        folded = await self.store.telemetry.fold(FOLD_BATCH)
        return Swept(), AGAIN if folded >= FOLD_BATCH else None
