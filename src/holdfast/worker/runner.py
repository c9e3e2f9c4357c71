"""Runs claimed attempts: each queue's in a lane of its own, and each of them is ended once.

A handler that is told to stop may go on: a plain function cannot be stopped, and a
coroutine can swallow its cancellation. When its time is over its attempt is ended all
the same, a plain function's at once and a coroutine's after the patience, and the handler
is *stuck*: it keeps its slot until it returns, so that no more handlers than slots run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextvars import copy_context

from holdfast.handlers.registry import Mode
from holdfast.job.ends import HandedBack
from holdfast.job.ids import JobId
from holdfast.job.outcome import Transition, undecidable
from holdfast.worker.attempt import NEVER, Attempt, Stop
from holdfast.worker.executor import Executor
from holdfast.worker.lane import Lane
from holdfast.worker.settle import settle
from holdfast.worker.timeouts import Alarm

Ended = Callable[[Attempt, Transition | None], None]
Returned = Callable[[Attempt], None]


class Runner:
    """Holds every attempt of this worker from its claim to its end."""

    def __init__(
        self,
        sizes: Mapping[str, int],
        executor: Executor,
        *,
        patience: float,
        on_end: Ended,
        on_return: Returned,
    ) -> None:
        self._executor = executor
        self._patience = patience
        self._on_end = on_end
        self._on_return = on_return
        self._loop = asyncio.get_running_loop()
        self.running: dict[JobId, Attempt] = {}
        self.stuck: dict[Attempt, float] = {}
        self.quiet = asyncio.Event()
        self.quiet.set()
        variables = copy_context()
        self._lanes = {
            queue: Lane(size, variables, self._run, self.hand_back) for queue, size in sizes.items()
        }
        self._alarm = Alarm(
            self.running.values, lambda attempt: self.stop(attempt, attempt.overdue_by())
        )

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

    def stop(self, attempt: Attempt, why: Stop) -> None:
        """Tell the handler to stop, and end the attempt without it if it must end and does not.
        What only waits to run ends without having started."""
        attempt.tell_to_stop(why)
        if not why.is_final:
            return
        if attempt.begun and attempt.handler.mode is Mode.THREAD:
            self._give_up(attempt)
        else:
            self._loop.call_later(self._patience, self._give_up, attempt)

    def stop_all(self, why: Stop) -> None:
        for attempt in tuple(self.running.values()):
            self.stop(attempt, why)

    def hand_back_waiting(self, queue: str | None = None) -> None:
        """Give up what has not started yet, of one queue or of all; it loses nothing by
        running later or elsewhere."""
        for name, lane in self._lanes.items():
            if queue in (None, name):
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
        elif attempt.stuck:
            self.stuck.pop(attempt, None)
            self._on_return(attempt)

    def _give_up(self, attempt: Attempt) -> None:
        if attempt.ended or attempt.task is None:
            return
        attempt.stuck = True
        self.stuck[attempt] = self._loop.time()
        self._finish(attempt, settle(attempt, HandedBack()))

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
