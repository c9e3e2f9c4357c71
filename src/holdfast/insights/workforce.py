"""Who works, and for which queues: one reading for lists, for alarms and for the doctor."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from holdfast.job.serving import choice_of, is_pattern
from holdfast.job.state import JobState
from holdfast.store.contract.queues import QueueInfo
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import WorkerInfo


@dataclass(frozen=True)
class Workforce:
    """All workers and all queues of a store, and the store's clock when they were read. A lapsed
    worker never counts as live, and one that drains serves nobody."""

    now: datetime
    queues: list[QueueInfo]
    workers: list[WorkerInfo]

    @property
    def alive(self) -> list[WorkerInfo]:
        return [worker for worker in self.workers if worker.alive]

    @property
    def available(self) -> list[WorkerInfo]:
        return [worker for worker in self.workers if worker.available]

    @property
    def lapsed_holders(self) -> list[WorkerInfo]:
        """Workers that are not heard of and still hold jobs."""
        return [worker for worker in self.workers if not worker.alive and worker.running]

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
        by_name, by_pattern = self._served
        named = by_name.get(queue, [])
        fitting = {
            worker.id: worker
            for pattern, workers in by_pattern.items()
            if choice_of(queue, (pattern,))
            for worker in workers
        }
        others = [worker for worker in fitting.values() if queue not in worker.queues]
        return [*named, *others]

    @cached_property
    def _served(self) -> tuple[dict[str, list[WorkerInfo]], dict[str, list[WorkerInfo]]]:
        """Available workers by the queues that they name, and by their patterns: there may be
        hundreds of both, and each queue is asked about."""
        by_name: dict[str, list[WorkerInfo]] = {}
        by_pattern: dict[str, list[WorkerInfo]] = {}
        for worker in self.available:
            for choice in worker.queues:
                found = by_pattern if is_pattern(choice) else by_name
                found.setdefault(choice, []).append(worker)
        return by_name, by_pattern


async def read_workforce(store: Store) -> Workforce:
    """Three questions, whose cost grows with queues and workers, never with jobs."""
    return Workforce(await store.now(), await store.queues.find(), await store.workers.find())
