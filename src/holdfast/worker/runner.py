"""Runs claimed attempts: each queue's in a lane of its own, and each of them is ended once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextvars import copy_context

from holdfast.ends import HandedBack
from holdfast.job import JobId
from holdfast.outcome import Transition
from holdfast.worker.alarm import Alarm
from holdfast.worker.attempt import NEVER, Attempt, Stop
from holdfast.worker.execute import Executor
from holdfast.worker.lane import Lane
from holdfast.worker.settle import settle, undecidable

Ended = Callable[[Attempt, Transition | None], None]


class Runner:
    """Holds every attempt of this worker from its claim to its end."""

    def __init__(self, sizes: Mapping[str, int], executor: Executor, on_end: Ended) -> None:
        self._executor = executor
        self._on_end = on_end
        self.running: dict[JobId, Attempt] = {}
        self.quiet = asyncio.Event()
        self.quiet.set()
        variables = copy_context()
        self._lanes = {
            queue: Lane(size, variables, self._run, self.hand_back) for queue, size in sizes.items()
        }
        self._alarm = Alarm(self.running.values, self._overdue)

    def dispatch(self, attempts: Iterable[Attempt]) -> None:
        """Hand attempts to their lanes, in this order."""
        by_queue: dict[str, list[Attempt]] = {}
        soonest = NEVER
        for attempt in attempts:
            job = attempt.job
            self.running[job.id] = attempt
            by_queue.setdefault(job.queue, []).append(attempt)
            soonest = min(soonest, attempt.ends_by)
        if soonest != NEVER:
            self._alarm.watch(soonest)
        for queue, some in by_queue.items():
            self.quiet.clear()
            self._lanes[queue].put(some)

    def hold(self, attempt: Attempt) -> None:
        """It is ours from now on, and will be dispatched later."""
        self.running[attempt.job.id] = attempt
        self.quiet.clear()

    def stop_all(self, why: Stop) -> None:
        """Stop what runs, and what waits to run: it ends without having started."""
        for attempt in tuple(self.running.values()):
            attempt.tell_to_stop(why)

    def hand_back_waiting(self) -> None:
        """Give up what has not started yet; it loses nothing by running elsewhere."""
        for lane in self._lanes.values():
            self.hand_back(lane.take_waiting())

    def abandon(self) -> list[Attempt]:
        """Hand back what would not stop; returns it. Its later end is not written."""
        stubborn = list(self.running.values())
        for attempt in stubborn:
            self._finish(attempt, settle(attempt, HandedBack()))
            attempt.tell_to_stop(Stop.LOST)
        return stubborn

    async def close(self, patience: float) -> int:
        """End the slots; returns how many still run a handler that does not stop."""
        self._alarm.stop()
        for lane in self._lanes.values():
            lane.close()
        slots = [slot for lane in self._lanes.values() for slot in lane.slots]
        if not slots:
            return 0
        _, left = await asyncio.wait(slots, timeout=patience)
        return len(left)

    async def _run(self, attempt: Attempt, slot: asyncio.Task[None]) -> None:
        attempt.task = slot
        try:
            transition = await self._executor.run(attempt)
        except Exception as problem:  # noqa: BLE001 - a defect of ours must not hold the job forever
            transition = undecidable(attempt.job, problem)
        attempt.task = None
        if not attempt.ended:
            self._finish(attempt, transition)

    def hand_back(self, attempts: Iterable[Attempt]) -> None:
        for attempt in attempts:
            self._finish(attempt, settle(attempt, HandedBack()))

    def _finish(self, attempt: Attempt, transition: Transition | None) -> None:
        """Once for each attempt. A lost one may have been claimed anew under the same id."""
        attempt.ended = True
        if self.running.get(attempt.job.id) is attempt:
            del self.running[attempt.job.id]
        self._on_end(attempt, transition)
        if not self.running:
            self.quiet.set()

    def _overdue(self, attempt: Attempt) -> None:
        attempt.tell_to_stop(attempt.overdue_by())
