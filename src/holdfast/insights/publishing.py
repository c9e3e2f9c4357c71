"""Publishes the tasks of a worker in the catalogue of its store, at the start and once a day.

A document is written only if it says something new, or would be gone soon. Nothing waits for this,
and a worker whose store has no room for it runs its jobs all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

from holdfast.background.backoff import pause
from holdfast.background.counters import LoopCounters
from holdfast.background.options import ReconcileOptions
from holdfast.background.supervisor import Supervisor
from holdfast.errors import StoreError
from holdfast.events import Events
from holdfast.handlers.registry import Handler
from holdfast.insights.catalogue import KIND, CatalogueEntry
from holdfast.job.policy import DAY
from holdfast.store.contract.shelf import LONGEST_KEY, Put
from holdfast.store.contract.store import Store

KEPT_SECONDS = 30 * DAY
REFRESH_SECONDS = KEPT_SECONDS / 2
"""A document that is gone sooner than this is written again, although it says nothing new."""
PUBLISH_SECONDS = 1 * DAY
AGAIN_SECONDS = 60.0
"""The wait after the store could not take it."""
MOST_NAMES = 2_000
"""Names of tasks that one program publishes at most."""
PUBLISH_BATCH = 100

DeclaredTasks = Callable[[], Iterable[tuple[Handler, str]]]
"""Gives the tasks of a program, each with its queue."""


class Publisher:
    """A Loop that publishes tasks again and again."""

    name = "catalogue"

    def __init__(self, store: Store, events: Events, tasks: DeclaredTasks) -> None:
        self._store = store
        self._events = events
        self._tasks = tasks
        self._texts: dict[str, str] = {}

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            wait = PUBLISH_SECONDS
            try:
                await self.publish()
            except StoreError as error:
                self._events.warning("catalogue.publish_failed", error=str(error))
                wait = AGAIN_SECONDS
            await pause(wait, stop)

    async def publish(self) -> int:
        """Write what the catalogue does not say yet; answers how many documents were written."""
        await self._describe()
        soon = await self._store.now() + timedelta(seconds=REFRESH_SECONDS)
        names, written = sorted(self._texts)[:MOST_NAMES], 0
        for start in range(0, len(names), PUBLISH_BATCH):
            batch = names[start : start + PUBLISH_BATCH]
            current = {
                one.key
                for one in await self._store.shelf.get(KIND, batch)
                if one.value == self._texts[one.key]
                and (one.expires_at is None or one.expires_at > soon)
            }
            stale = [self._put(name) for name in batch if name not in current]
            await self._store.shelf.put(KIND, stale)
            written += len(stale)
        return written

    async def _describe(self) -> None:
        """Describe the tasks that are new. A schema takes a while to make, so that the event loop
        gets its turn after each."""
        for handler, queue in self._tasks():
            if handler.name not in self._texts and len(handler.name) <= LONGEST_KEY:
                text = CatalogueEntry.of(handler, queue).to_text()
                self._texts |= dict.fromkeys(handler.names, text)
                await asyncio.sleep(0)

    def _put(self, name: str) -> Put:
        return Put(key=name, value=self._texts[name], expires_in=KEPT_SECONDS)


class CatalogueService:
    """Runs the publisher."""

    name = "catalogue"

    def __init__(
        self, store: Store, events: Events, tasks: DeclaredTasks, options: ReconcileOptions
    ) -> None:
        self._publisher = Publisher(store, events, tasks)
        self.loops = (self._publisher,)
        self._supervisor = Supervisor(self.loops, events, name=self.name, grace=options.grace)

    @property
    def counters(self) -> Mapping[str, LoopCounters]:
        return {}

    async def start(self) -> None:
        await self._supervisor.start()

    async def stop(self) -> None:
        await self._supervisor.stop()

    async def run_once(self) -> int:
        return await self._publisher.publish()
