"""The base of reconcilers that one replica runs for all, because the others would only repeat what
it reads. The ttl of the lead is three intervals, and each tick extends it."""

from __future__ import annotations

from typing import Any

from holdfast.background.leader import Leadership
from holdfast.background.options import ReconcileOptions
from holdfast.background.reconciler import Reconciler
from holdfast.events import Events
from holdfast.store.contract.store import Store


class LedReconciler(Reconciler):
    """Its steps begin with `await self.leadership.ensure()`."""

    def __init__(
        self, store: Store, events: Events, options: ReconcileOptions, **shared: Any
    ) -> None:
        super().__init__(store, events, options, **shared)
        self.leadership = Leadership(store, events, self.name, options.owner, ttl=3 * self.interval)

    @property
    def pace(self) -> float:
        """The leader sweeps once per interval. The others ask for the lead less often."""
        return self.interval if self.leadership.held else super().pace

    async def close(self) -> None:
        await self.leadership.resign()
