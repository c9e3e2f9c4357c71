"""Removes ended jobs and ledger rows whose time to be kept is over, a bounded batch at a time.

Any replica could do it at any moment; one at a time saves the others the scan,
so it runs under leadership. The ttl is three intervals: each tick extends it.
"""

from __future__ import annotations

from holdfast.background.counters import Tally
from holdfast.background.leader import Leadership
from holdfast.background.options import ReconcileOptions
from holdfast.background.outage import Outage
from holdfast.background.reconciler import AGAIN, Reconciler
from holdfast.background.replicas import Replicas
from holdfast.errors import StoreUnavailable
from holdfast.events import Events
from holdfast.store.contract.store import Store


class Retention(Reconciler):
    name = "retention"

    def __init__(
        self,
        store: Store,
        events: Events,
        options: ReconcileOptions,
        *,
        outage: Outage | None = None,
        replicas: Replicas | None = None,
    ) -> None:
        super().__init__(store, events, options, outage=outage, replicas=replicas)
        self.leadership = Leadership(
            store, events, self.name, options.owner, ttl=3 * options.retention
        )

    @property
    def interval(self) -> float:
        return self.options.retention

    @property
    def pace(self) -> float:
        """Who leads prunes at the full pace, the others seldom ask for the lead."""
        return self.interval if self.leadership.held else super().pace

    async def step(self, cursor: str | None) -> tuple[Tally, str | None]:
        if not await self.leadership.ensure():
            return Tally(), None
        batch = self.options.batch
        jobs = await self.store.jobs.prune(batch)
        plans = await self.store.schedules.prune_ledger(batch)
        more = AGAIN if max(jobs, plans) >= batch else None
        return Tally(found=jobs + plans, mended=jobs + plans), more

    async def close(self) -> None:
        try:
            await self.leadership.resign()
        except StoreUnavailable as error:
            # The ttl ends it without us.
            self.events.debug("leader.resign_failed", role=self.name, error=str(error))
