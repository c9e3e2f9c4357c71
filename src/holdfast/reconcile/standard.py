"""All reconcilers a store needs, and the service that runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.background.counters import Counters, Tally
from holdfast.background.options import ReconcileOptions
from holdfast.background.outage import Outage
from holdfast.background.reconciler import Reconciler
from holdfast.background.replicas import Replicas
from holdfast.background.supervisor import Supervisor
from holdfast.events import Events
from holdfast.reconcile.attempt_timeout import AttemptTimeout
from holdfast.reconcile.deadline import Deadline
from holdfast.reconcile.lapsed_leases import LeaseExpiry
from holdfast.reconcile.promotion import Promotion
from holdfast.reconcile.retention import Retention
from holdfast.reconcile.worker_registry import WorkerRegistry
from holdfast.store.contract.records import Topic, Wakeup
from holdfast.store.contract.store import Store

# In the order in which one pass over all of them mends the most: what a death or a
# timeout sends back may be due at once, so promotion comes after.
STANDARD: tuple[type[Reconciler], ...] = (
    LeaseExpiry,
    AttemptTimeout,
    Deadline,
    Promotion,
    Retention,
    WorkerRegistry,
)


def standard_reconcilers(
    store: Store,
    events: Events,
    options: ReconcileOptions | None = None,
    replicas: Replicas | None = None,
) -> list[Reconciler]:
    """One of each, sharing what they know about an outage of the store and about replicas."""
    options, replicas = options or ReconcileOptions(), replicas or Replicas()
    outage = Outage(events, "reconcile")
    return [each(store, events, options, outage=outage, replicas=replicas) for each in STANDARD]


class ReconcileService:
    """A Service: every reconciler under one supervisor, woken when something is scheduled."""

    name = "reconcile"

    def __init__(
        self,
        store: Store,
        events: Events,
        options: ReconcileOptions | None = None,
        *,
        replicas: Replicas | None = None,
    ) -> None:
        options, self._replicas = options or ReconcileOptions(), replicas or Replicas()
        self.reconcilers = standard_reconcilers(store, events, options, self._replicas)
        self.loops = tuple(self.reconcilers)
        for each in self.reconcilers:
            if each.on_fewer:
                self._replicas.on_fewer(each.wake)
        self._store = store
        self._supervisor = Supervisor(self.loops, events, name=self.name, grace=options.grace)
        self._unsubscribe: Callable[[], None] | None = None
        self._turn = asyncio.Lock()

    @property
    def counters(self) -> dict[str, Counters]:
        return {each.name: each.counters for each in self.reconcilers}

    async def start(self) -> None:
        async with self._turn:
            if self._unsubscribe is None:
                self._unsubscribe = await self._store.wakeups.subscribe(self._wake, {Topic.DUE})
            await self._supervisor.start()

    async def stop(self) -> None:
        async with self._turn:
            if self._unsubscribe is not None:
                self._unsubscribe()
                self._unsubscribe = None
            await self._supervisor.stop()
            for each in self.reconcilers:
                await each.close()

    async def run_once(self) -> dict[str, Tally]:
        """One sweep of each, in order, with no waiting: for tests that move the clock."""
        return {each.name: await each.run_once() for each in self.reconcilers}

    def _wake(self, _: Wakeup) -> None:
        """A few replicas look at what is due; if none of them did, a poll tells of it again."""
        if self._replicas.chosen():
            for each in self.reconcilers:
                if each.on_due:
                    each.wake()
