"""The slots of one queue.

A slot is a long-lived coroutine that runs one attempt after another. That costs a microsecond a
job, where a task for each job would cost five, and a handler that never waits runs to its end
within one turn of the loop. A lane has no more of these coroutines than its queue has slots, so
no more handlers run at once.

A handler may leave traces in the coroutine that ran it: context variables that it set, or a
cancellation that it did not consume. Such a slot is replaced, so that no job ever sees traces of
another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from contextvars import Context as Variables
from contextvars import ContextVar, copy_context
from typing import Protocol

from holdfast.context import HOLDER, JobHolder
from holdfast.job.outcome import undecidable
from holdfast.job.transition import Transition
from holdfast.worker.attempt import Attempt

LONGEST_WAIT = 0.1
"""Seconds that an attempt waits behind handlers that all turned out slow, before it goes back."""

SLOT: ContextVar[asyncio.Task[None]] = ContextVar("holdfast-slot")
"""The slot that a task belongs to, also a task that a handler started."""


class Runs(Protocol):
    """What a lane does with an attempt (`Executor`)."""

    async def run(self, attempt: Attempt) -> Transition | None: ...


class Holder(Protocol):
    """Who holds the attempts of a lane (`Runner`), and hears later what became of them."""

    def end(self, attempt: Attempt, transition: Transition | None) -> None: ...

    def hand_back(self, attempts: Iterable[Attempt]) -> None: ...


class Lane:
    """Attempts of one queue, first come first served."""

    def __init__(self, size: int, variables: Variables, executor: Runs, holder: Holder) -> None:
        self._size = size
        self._variables = variables
        self._executor = executor
        self._holder = holder
        self._loop = asyncio.get_running_loop()
        self._inbox: deque[Attempt] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._waking = False
        self._closed = False
        self.slots: set[asyncio.Task[None]] = set()

    def put(self, attempts: Iterable[Attempt]) -> None:
        """Run these attempts, in this order, as slots come free."""
        self._inbox.extend(attempts)
        self._wake_a_slot()
        if self._timer is None:
            self._timer = self._loop.call_later(LONGEST_WAIT, self._check_waiting)

    def take_waiting(self) -> list[Attempt]:
        """Remove the attempts that have not started yet from this lane, and return them."""
        waiting = list(self._inbox)
        self._inbox.clear()
        return waiting

    @property
    def size(self) -> int:
        return self._size

    def resize(self, size: int) -> None:
        """Run so many attempts at once from now on. Nothing that runs is cancelled: a surplus
        slot ends when its handler has ended."""
        self._size = size
        surplus = max(0, len(self.slots) - size)
        ending, self._idle[:surplus] = self._idle[:surplus], []
        for waiter in ending:
            if not waiter.done():
                waiter.set_result(None)  # its slot sees that it is one too many
        if self._inbox:
            self._wake_a_slot()

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for slot in self.slots:
            slot.cancel()

    def _check_waiting(self) -> None:
        """Hand waiting attempts back, but only if every slot is busy. If a slot is idle, the
        event loop is blocked: the slot will run the attempt as soon as the loop turns, and
        handing it back would cost two writes for nothing."""
        self._timer = None
        if not self._inbox:
            return
        busy = len(self.slots) >= self._size and not self._idle
        if busy and self._inbox[0].since + LONGEST_WAIT <= self._loop.time():
            self._holder.hand_back(self.take_waiting())
        else:
            self._timer = self._loop.call_later(LONGEST_WAIT, self._check_waiting)

    def _wake_a_slot(self) -> None:
        """Wake one slot at a time. A woken slot wakes the next one before it starts a handler
        that may wait. If handlers do not wait, the first slot empties the inbox alone."""
        if self._waking:
            return
        while self._idle:
            waiter = self._idle.pop()
            if not waiter.done():
                self._waking = True
                waiter.set_result(None)
                return
        if len(self.slots) < self._size:
            self._waking = True
            slot = self._loop.create_task(
                self._slot(), name="holdfast-slot", context=self._variables.copy()
            )
            self.slots.add(slot)
            slot.add_done_callback(self._slot_ended)

    def _slot_ended(self, slot: asyncio.Task[None]) -> None:
        self.slots.discard(slot)
        if not slot.cancelled():
            slot.exception()  # every handler's error was handled inside; nothing is lost here
        if self._inbox and not self._closed:
            self._wake_a_slot()

    async def _slot(self) -> None:
        slot = asyncio.current_task()
        assert slot is not None
        SLOT.set(slot)
        holder = JobHolder()
        HOLDER.set(holder)
        clean = copy_context()
        inbox, slots = self._inbox, self.slots
        run, end = self._executor.run, self._holder.end
        while True:
            self._waking = False
            if self._closed or len(slots) > self._size:
                break
            while inbox:
                attempt = inbox.popleft()
                if inbox and not self._waking:
                    self._wake_a_slot()
                attempt.task = slot
                holder.job = attempt.job
                try:
                    transition = await run(attempt)
                except Exception as problem:  # noqa: BLE001 - a defect of ours must not hold the job
                    transition = undecidable(attempt.job, problem)
                attempt.task = holder.job = None
                end(attempt, transition)
                del attempt, transition  # what they carry must not live on in an idle slot
                if copy_context() != clean or slot.cancelling() or len(slots) > self._size:
                    slots.discard(slot)
                    return
            waiter = self._loop.create_future()
            self._idle.append(waiter)
            await waiter
        slots.discard(slot)
