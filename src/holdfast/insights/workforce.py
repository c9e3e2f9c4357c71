"""Who works, and for which queues: one reading for lists, for alarms and for the doctor."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property

import msgspec

from holdfast.fleet.serving import Serving
from holdfast.job.state import JobState
from holdfast.store.contract.queues import QueueInfo
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import WorkerInfo


class Workforce(msgspec.Struct, frozen=True, dict=True):
    """All workers and all queues of a store, and the store's clock when they were read. A lapsed
    worker never counts as live, and one that drains serves nobody."""

    now: datetime
    queues: list[QueueInfo]
    workers: list[WorkerInfo]

    @cached_property
    def alive(self) -> list[WorkerInfo]:
        return [worker for worker in self.workers if worker.alive]

    @cached_property
    def available(self) -> list[WorkerInfo]:
        return [worker for worker in self.workers if worker.available]

    @property
    def unserved(self) -> list[QueueInfo]:
        """Queues that have ready jobs, and no worker that may claim them."""
        return [
            queue
            for queue in self.queues
            if queue.counts.get(JobState.READY) and not self.serving(queue.name)
        ]

    @property
    def versions(self) -> dict[str, list[WorkerInfo]]:
        """The live workers by their release of Holdfast."""
        found: dict[str, list[WorkerInfo]] = {}
        for worker in self.alive:
            found.setdefault(worker.version, []).append(worker)
        return dict(sorted(found.items()))

    def serving(self, queue: str) -> list[WorkerInfo]:
        """The workers that may claim its jobs."""
        return self._serving.of(queue)

    @cached_property
    def _serving(self) -> Serving:
        return Serving(self.workers)


async def read_workforce(store: Store) -> Workforce:
    """Three questions, whose cost grows with queues and workers, never with jobs."""
    return Workforce(await store.now(), await store.queues.find(), await store.workers.find())
