"""The service that keeps schedules: declares those of this program, and runs the evaluator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime

from holdfast.background.backoff import pause
from holdfast.background.counters import Tally
from holdfast.background.options import ReconcileOptions
from holdfast.background.replicas import Replicas
from holdfast.background.supervisor import Supervisor
from holdfast.errors import StoreUnavailable
from holdfast.events import Events
from holdfast.schedule.evaluator import Evaluator
from holdfast.schedule.model import Definition
from holdfast.schedule.providers import Providers
from holdfast.store.contract.records import Topic, Wakeup
from holdfast.store.contract.store import Store

DECLARE_EVERY = 600.0
"""Seconds between two declarations: by them one sees which schedules live code still has."""


class Declaring:
    """A Loop: says again and again what this program's code declares."""

    name = "declaring"

    def __init__(self, store: Store, events: Events, declared: Mapping[str, Definition]) -> None:
        self._store = store
        self._events = events
        self._declared = declared
        self._since: datetime | None = None

    async def declare(self) -> None:
        """Of programs that differ the store prefers the one that first declared last."""
        self._since = self._since or await self._store.now()
        await self._store.schedules.declare(dict(self._declared), self._since)

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await pause(DECLARE_EVERY, stop)
            if stop.is_set():
                return
            try:
                await self.declare()
            except StoreUnavailable as error:
                self._events.warning("schedule.declare_failed", error=str(error))


class ScheduleService:
    """A Service: every worker runs one, any of them may do the work."""

    name = "schedules"

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
        self._declaring = Declaring(store, events, declared)
        self._store = store
        self.loops = (self.evaluator, self._declaring)
        self._supervisor = Supervisor(self.loops, events, name=self.name, grace=options.grace)
        self._unsubscribe: Callable[[], None] | None = None
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        async with self._turn:
            if self._unsubscribe is None:
                self._unsubscribe = await self._store.wakeups.subscribe(
                    self._wake, {Topic.SCHEDULES, Topic.LEAD}
                )
                await self._declaring.declare()
            await self._supervisor.start()

    async def stop(self) -> None:
        async with self._turn:
            if self._unsubscribe is not None:
                self._unsubscribe()
                self._unsubscribe = None
            await self._supervisor.stop()
            await self.evaluator.close()

    async def run_once(self) -> Tally:
        """Declare, and decide about all that is due now: for tests that move the clock."""
        await self._declaring.declare()
        return await self.evaluator.run_once()

    def _wake(self, wakeup: Wakeup) -> None:
        if wakeup.topic is Topic.SCHEDULES:
            self.evaluator.wake()
        elif wakeup.name == self.evaluator.leadership.role:
            self.evaluator.lead_is_free()
