"""Runs claimed attempts in slots.

A slot is a long-lived coroutine that pulls one attempt after another. That
costs a microsecond a job where a task of its own would cost five, and a
handler that never waits runs to its end without a turn of the loop. A slot
whose handler left traces in it (context variables set, a cancellation not
consumed) is replaced, so that no job ever sees another's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context as Variables
from contextvars import copy_context

from holdfast.job import JobId
from holdfast.outcome import HandedBack, Transition
from holdfast.worker.alarm import Alarm
from holdfast.worker.attempt import NEVER, Attempt, Stop
from holdfast.worker.execute import Executor
from holdfast.worker.settle import settle, undecidable

Ended = Callable[[Attempt, Transition | None], None]


class Runner:
    """Holds every attempt of this worker from its claim to its end."""

    def __init__(self, executor: Executor, on_end: Ended) -> None:
        self._executor = executor
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._variables: Variables = copy_context()
        self.running: dict[JobId, Attempt] = {}
        self.quiet = asyncio.Event()
        self.quiet.set()
        self._inbox: deque[Attempt] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._slots: set[asyncio.Task[None]] = set()
        self._waking = False
        self._closed = False
        self._alarm = Alarm(self.running.values, self._overdue)

    def dispatch(self, attempts: Iterable[Attempt]) -> None:
        """Hand attempts to the slots; they start in this order."""
        soonest = NEVER
        for attempt in attempts:
            self.running[attempt.job.id] = attempt
            self._inbox.append(attempt)
            soonest = min(soonest, attempt.ends_by)
        if soonest != NEVER:
            self._alarm.watch(soonest)
        if self._inbox:
            self.quiet.clear()
            self._wake_a_slot()

    def stop_all(self, why: Stop) -> None:
        """Stop what runs, and what waits to run: it ends without having started."""
        for attempt in tuple(self.running.values()):
            attempt.tell_to_stop(why)

    def hand_back_waiting(self) -> int:
        """Give up what has not started yet; it loses nothing by running elsewhere."""
        waiting = tuple(self._inbox)
        self._inbox.clear()
        for attempt in waiting:
            self._finish(attempt, settle(attempt, HandedBack()))
        return len(waiting)

    def abandon(self) -> list[Attempt]:
        """Hand back what would not stop; returns it. Its later end is not written."""
        stubborn = list(self.running.values())
        for attempt in stubborn:
            self._finish(attempt, settle(attempt, HandedBack()))
            attempt.tell_to_stop(Stop.LOST)
        return stubborn

    async def close(self, patience: float) -> int:
        """End the slots; returns how many still run a handler that does not stop."""
        self._closed = True
        self._alarm.stop()
        for slot in self._slots:
            slot.cancel()
        if self._slots:
            await asyncio.wait(self._slots, timeout=patience)
        return len(self._slots)

    # One slot ---------------------------------------------------------------------------

    def _wake_a_slot(self) -> None:
        """One at a time: a woken slot wakes the next before it starts a handler that may wait,
        and if handlers do not wait, the first slot empties the inbox alone."""
        if self._waking:
            return
        self._waking = True
        while self._idle:
            waiter = self._idle.pop()
            if not waiter.done():
                waiter.set_result(None)
                return
        slot = self._loop.create_task(
            self._slot(), name="holdfast-slot", context=self._variables.copy()
        )
        self._slots.add(slot)
        slot.add_done_callback(self._slot_ended)

    def _slot_ended(self, slot: asyncio.Task[None]) -> None:
        self._slots.discard(slot)
        if not slot.cancelled():
            slot.exception()  # every handler's error was handled inside; nothing is lost here
        if self._inbox and not self._closed:
            self._wake_a_slot()

    async def _slot(self) -> None:
        slot = asyncio.current_task()
        assert slot is not None
        clean = copy_context()
        inbox = self._inbox
        while not self._closed:
            self._waking = False
            while inbox:
                attempt = inbox.popleft()
                if inbox:
                    self._wake_a_slot()
                await self._run(attempt, slot)
                if copy_context() != clean or slot.cancelling():
                    return
            waiter = self._loop.create_future()
            self._idle.append(waiter)
            await waiter

    async def _run(self, attempt: Attempt, slot: asyncio.Task[None]) -> None:
        attempt.task = slot
        try:
            transition = await self._executor.run(attempt)
        except Exception as problem:  # noqa: BLE001 - a defect of ours must not hold the job forever
            transition = undecidable(attempt.job, problem)
        attempt.task = None
        if not attempt.ended:
            self._finish(attempt, transition)

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
