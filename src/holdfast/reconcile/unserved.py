"""Tells when jobs wait for workers that do not exist: a name mistyped, a deployment forgotten.

It mends nothing: only people can. What it finds is told once, again every few minutes while it
lasts, and once more when it is over. A queue that is paused waits for somebody else and is left
out.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from holdfast.background.counters import Swept
from holdfast.background.led import LedReconciler
from holdfast.background.options import ReconcileOptions
from holdfast.events import Events
from holdfast.fleet.reading import labels_of, may_read, some_notes
from holdfast.fleet.serving import Unserved, lacking_labels, left_by_only, unserved
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from holdfast.store.contract.telemetry import Tally
from holdfast.store.contract.workers import WorkerInfo

TELL_AGAIN_SECONDS = 300.0
MISFITS_READ = 1_000
LEFT_IN = (JobState.SCHEDULED, JobState.READY)
"""Where a job waits that a worker has left for another one."""


class UnservedReconciler(LedReconciler):
    """Compares ready jobs with workers while it leads."""

    name = "unserved"
    only_tells = True

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
            self.events.info("queue.served", **_told(what))
        for what, jobs in sorted(found.items()):
            if now - self._told.get(what, -TELL_AGAIN_SECONDS) >= TELL_AGAIN_SECONDS:
                self._told[what] = now
                self.events.warning("queue.unserved", jobs=jobs, **_told(what))
        return Swept(found=len(found)), None

    async def _find(self) -> dict[Unserved, int]:
        tallies, workers = await self.store.telemetry.tallies(), await self.store.workers.find()
        found = unserved(tallies, workers) | await self._find_labels(tallies, workers)
        found |= await self._find_left(tallies, workers)
        found |= await self._find_misfits(tallies, workers)
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

    async def _find_labels(
        self, tallies: Sequence[Tally], workers: Sequence[WorkerInfo]
    ) -> dict[Unserved, int]:
        """Jobs that need labels which no worker has. Where none needs any, two questions tell."""
        wanted = lacking_labels(tallies, workers)
        queues, tasks = {queue for queue, _ in wanted}, {task for _, task in wanted}
        if not wanted or not await self._in_need(queues, tasks, ()):
            return {}
        found = {}
        for (queue, task), labels in wanted.items():
            if jobs := await self._in_need([queue], [task], labels):
                found[Unserved(queue, task, labels=True)] = jobs
        return found

    async def _find_left(
        self, tallies: Sequence[Tally], workers: Sequence[WorkerInfo]
    ) -> dict[Unserved, int]:
        """Jobs that need no label where all workers take only jobs that do."""
        found = {}
        for (queue, task), jobs in left_by_only(tallies, workers).items():
            if (left := jobs - await self._in_need([queue], [task], ())) > 0:
                found[Unserved(queue, task, only=True)] = left
        return found

    async def _find_misfits(
        self, tallies: Sequence[Tally], workers: Sequence[WorkerInfo]
    ) -> dict[Unserved, int]:
        """Jobs whose arguments no live worker can read. They wait to be tried again, so nobody is
        asked where no job waits for a time."""
        if not any(tally.state is JobState.SCHEDULED and tally.jobs for tally in tallies):
            return {}
        known = await some_notes(self.store, MISFITS_READ)
        left = [
            job
            for job in (await self.store.jobs.get(sorted(known)) if known else ())
            if job.state in LEFT_IN and known[job.id].fence == job.fence
        ]
        labels = await labels_of(self.store, left)
        found = Counter[Unserved]()
        for job in left:
            if not may_read(job, workers, labels[job.id], known[job.id].tried):
                found[Unserved(job.queue, job.task, misfits=True)] += 1
        return dict(found)

    async def _in_need(
        self, queues: Collection[str], tasks: Collection[str], labels: Collection[str]
    ) -> int:
        """How many jobs need other labels than these, beside those that limits hold up."""
        limits = self.store.limits
        with_labels = await limits.held_up(queues, tasks, labels)
        return max(0, with_labels - await limits.held_up(queues, tasks))


def _told(what: Unserved) -> dict[str, Any]:
    return {
        "queue": what.queue,
        "task": what.task,
        "labels": what.labels,
        "only": what.only,
        "misfits": what.misfits,
    }
