"""Tells when budgets are nearly spent, or overspent.

It mends nothing: only people can. The write that brings a budget to its soft amount notes that, and
so does one that settles more than was reserved. Each note is told once in a period, by one replica.
"""

from __future__ import annotations

from holdfast.background.counters import Swept
from holdfast.background.reconciler import Reconciler
from holdfast.job.passing import split_bucket
from holdfast.limits.model import AlarmWhat

EVENTS = {
    AlarmWhat.SOFT_REACHED: "limit.soft_reached",
    AlarmWhat.OVERRUN: "budget.overrun",
}


class BudgetsReconciler(Reconciler):
    """Tells what nobody has told yet, when the store says that there is something."""

    name = "budgets"
    on_limits = True
    only_tells = True

    @property
    def interval(self) -> float:
        return self.options.budgets

    async def step(self, cursor: str | None) -> tuple[Swept, str | None]:
        found = await self.store.limits.alarms(self.options.batch)
        for one in found:
            limit, key = split_bucket(one.bucket)
            self.events.warning(
                EVENTS[one.what],
                limit=limit,
                key=key,
                spent=one.spent,
                reserved=one.reserved,
                soft=one.settings.soft,
                hard=one.settings.hard,
            )
        return Swept(found=len(found)), None
