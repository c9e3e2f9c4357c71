"""Tells when jobs wait for workers that do not exist: a name mistyped, a deployment forgotten.

It mends nothing: only people can. What it finds is told once, again every few minutes while it
lasts, and once more when it is over. A queue that is paused waits for somebody else and is left
out.
"""

from __future__ import annotations

import time
from typing import Any

from holdfast.background.counters import Swept
from holdfast.background.led import LedReconciler
from holdfast.background.options import ReconcileOptions
from holdfast.events import Events
from holdfast.fleet.serving import Unserved, unserved
from holdfast.store.contract.store import Store

TELL_AGAIN_SECONDS = 300.0


class UnservedReconciler(LedReconciler):
    """Compares ready jobs with workers while it leads."""

    name = "unserved"

    def __init__(
        self, store: Store, events: Events, options: ReconcileOptions, **shared: Any
    ) -> None:
        super().__init__(store, events, options, **shared)
        self._told: dict[Unserved, float] = {}

    @property
    def interval(self) -> float:
        return self.options.unserved

    async def step(self, cursor: str | None) -> tuple[Swept, str | None]:
        if not await self.leadership.ensure():
            self._told.clear()
            return Swept(), None
        found = await self._find()
        now = time.monotonic()
        for what in self._told.keys() - found.keys():
            del self._told[what]
            self.events.info("queue.served", queue=what.queue, task=what.task)
        for what, jobs in sorted(found.items()):
            if now - self._told.get(what, -TELL_AGAIN_SECONDS) >= TELL_AGAIN_SECONDS:
                self._told[what] = now
                self.events.warning("queue.unserved", queue=what.queue, task=what.task, jobs=jobs)
        return Swept(found=len(found)), None

    async def _find(self) -> dict[Unserved, int]:
        found = unserved(await self.store.telemetry.tallies(), await self.store.workers.find())
        if not found:
            return {}
        paused = await self.store.queues.paused()
        if paused.everything:
            return {}
        held = {info.name for info in await self.store.queues.find() if info.paused}
        return {
            what: jobs
            for what, jobs in found.items()
            if what.queue not in held and what.task not in paused.tasks
        }
