"""The service that keeps schedules: it declares those of this program and runs the evaluator."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.background.counters import LoopCounters, Swept
from holdfast.background.options import ReconcileOptions
from holdfast.background.replicas import Replicas
from holdfast.background.woken_service import WokenService
from holdfast.events import Events
from holdfast.schedule.declarer import Declarer
from holdfast.schedule.evaluator import Evaluator
from holdfast.schedule.model import Definition
from holdfast.schedule.providers import Providers
from holdfast.store.contract.store import Store
from holdfast.store.contract.wakeups import Topic, Wakeup


class ScheduleService(WokenService):
    """Every worker runs one, and any of them can do all the work."""

    name = "schedules"
    topics = frozenset({Topic.SCHEDULES, Topic.LEAD})

    def __init__(
        self,
        store: Store,
        events: Events,
        declared: Mapping[str, Definition],
        providers: Providers | None = None,
        options: ReconcileOptions | None = None,
        *,
        replicas: Replicas | None = None,
    ) -> None:
        options = options or ReconcileOptions()
        self.evaluator = Evaluator(store, events, providers, options, replicas=replicas)
        self._declarer = Declarer(store, events, declared)
        super().__init__(store, events, (self.evaluator, self._declarer), grace=options.grace)

    @property
    def counters(self) -> dict[str, LoopCounters]:
        return {self.evaluator.name: self.evaluator.counters}

    async def run_once(self) -> Swept:
        """Declare, and decide about every plan that is due now: for tests that move the clock."""
        await self._declarer.declare()
        return await self.evaluator.run_once()

    async def before_loops(self) -> None:
        await self._declarer.declare()

    async def after_loops(self) -> None:
        await self.evaluator.leadership.resign()

    def wake(self, wakeup: Wakeup) -> None:
        if wakeup.topic is Topic.SCHEDULES:
            self.evaluator.wake()
        elif wakeup.name == self.evaluator.leadership.role:
            self.evaluator.lead_is_free()
