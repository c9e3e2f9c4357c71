"""The slots of one queue.

A slot is a long-lived coroutine that pulls one attempt after another. That
costs a microsecond a job where a task of its own would cost five, and a
handler that never waits runs to its end without a turn of the loop. There are
never more of them than the queue has slots, so no more handlers run at once.
A slot whose handler left traces in it (context variables set, a cancellation
not consumed) is replaced, so that no job ever sees another's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextvars import Context as Variables
from contextvars import copy_context

from holdfast.worker.attempt import Attempt

LONGEST_WAIT = 0.1
"""Seconds that an attempt waits behind handlers that all turned out slow, before it goes back."""

Run = Callable[[Attempt, "asyncio.Task[None]"], Awaitable[None]]


class Lane:
    """Attempts of one queue, first come first served; `run` is awaited for each in a slot,
    `on_stuck` gets those that no slot came free for."""

    def __init__(
        self, size: int, variables: Variables, run: Run, on_stuck: Callable[[list[Attempt]], None]
    ) -> None:
        self._size = size
        self._variables = variables
        self._run = run
        self._on_stuck = on_stuck
        self._loop = asyncio.get_running_loop()
        self._inbox: deque[Attempt] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._watch: asyncio.TimerHandle | None = None
        self._waking = False
        self._closed = False
        self.slots: set[asyncio.Task[None]] = set()

    def put(self, attempts: Iterable[Attempt]) -> None:
        """They start in this order."""
        self._inbox.extend(attempts)
        self._wake_a_slot()
        if self._watch is None:
            self._watch = self._loop.call_later(LONGEST_WAIT, self._look)

    def take_waiting(self) -> list[Attempt]:
        """What has not started yet is no longer this lane's."""
        waiting = list(self._inbox)
        self._inbox.clear()
        return waiting

    def close(self) -> None:
        self._closed = True
        if self._watch is not None:
            self._watch.cancel()
        for slot in self.slots:
            slot.cancel()

    def _look(self) -> None:
        """Only while every slot is busy: where handlers hog the loop, some slot is idle and
        gets its turn, and handing back would only make work."""
        self._watch = None
        if not self._inbox:
            return
        busy = len(self.slots) == self._size and not self._idle
        if busy and self._inbox[0].since + LONGEST_WAIT <= self._loop.time():
            self._on_stuck(self.take_waiting())
        else:
            self._watch = self._loop.call_later(LONGEST_WAIT, self._look)

    def _wake_a_slot(self) -> None:
        """One at a time: a woken slot wakes the next before it starts a handler that may wait,
        and if handlers do not wait, the first slot empties the inbox alone."""
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
