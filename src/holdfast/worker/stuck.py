"""Handlers that go on after their attempt was ended, and what becomes of their slots.

A stuck handler keeps its slot, because no more handlers may run than there are slots. So stuck
handlers make a worker smaller. When too many slots of a queue, or too many threads, are lost that
way, the worker leaves: a new process has all of its slots.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from holdfast.handlers.registry import Mode
from holdfast.worker.attempt import Attempt
from holdfast.worker.executor import Executor
from holdfast.worker.permits import Permits
from holdfast.worker.setup import WorkerSetup

OnExhausted = Callable[[str, int, int], None]
"""Called with a queue, how many slots (or threads) are lost there, and of how many."""


class StuckHandlers:
    """Attempts whose handlers are stuck. Iterating over them is safe on the worker's loop only."""

    def __init__(
        self, setup: WorkerSetup, permits: Permits, executor: Executor, on_exhausted: OnExhausted
    ) -> None:
        self._events = setup.events
        self._options = setup.options
        self._permits = permits
        self._executor = executor
        self._on_exhausted = on_exhausted
        self._loop = asyncio.get_running_loop()
        self._since: dict[Attempt, float] = {}

    def __iter__(self) -> Iterator[Attempt]:
        return iter(self._since)

    def __len__(self) -> int:
        return len(self._since)

    def copy(self) -> list[Attempt]:
        """For another thread: copying a dict is one step for the interpreter."""
        return list(self._since.copy())

    def add(self, attempt: Attempt) -> None:
        attempt.stuck = True
        self._since[attempt] = self._loop.time()
        job = attempt.job
        self._events.warning(
            "job.handler_stuck",
            job_id=job.id,
            task=job.task,
            queue=job.queue,
            attempt=job.attempt,
            stuck=sum(one.job.queue == job.queue for one in self),
            slots=self._permits.slots.get(job.queue, 0),
        )
        self._loop.call_later(self._options.patience, self._judge, job.queue)

    def remove(self, attempt: Attempt) -> None:
        self._since.pop(attempt, None)

    def report_returned(self, attempt: Attempt) -> None:
        job = attempt.job
        self._events.info(
            "job.stuck_handler_returned", job_id=job.id, task=job.task, queue=job.queue
        )

    def _judge(self, queue: str) -> None:
        """Count only handlers that had time to return. A process that was stopped for a while
        hears of many lost attempts at once, and most of their handlers are about to end."""
        latest = self._loop.time() - self._options.patience
        stuck = [one for one, since in self._since.items() if since <= latest]
        in_queue = sum(one.job.queue == queue for one in stuck)
        in_threads = sum(one.handler.mode is Mode.THREAD for one in stuck)
        for lost, of in (
            (in_queue, self._permits.slots.get(queue, 0)),
            (in_threads, self._executor.capacity[Mode.THREAD]),
        ):
            if lost and of and lost >= of * self._options.stuck_share:
                self._on_exhausted(queue, lost, of)
