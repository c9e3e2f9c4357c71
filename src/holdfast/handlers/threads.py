"""Plain functions run in threads.

A thread cannot be killed. A slot therefore waits for the function that it started, even when the
attempt timed out or was lost. Otherwise functions that nobody can stop would pile up beside each
other. Threads are daemons, so that a function that never returns cannot keep the program from
leaving.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any


class _Call:
    """One function call on its way through a thread."""

    __slots__ = (
        "abandoned",
        "answer",
        "begin",
        "context",
        "delivered",
        "error",
        "function",
        "started",
        "value",
    )

    def __init__(
        self, function: Callable[[], Any], begin: Callable[[], None], answer: asyncio.Future[Any]
    ) -> None:
        self.function = function
        self.begin = begin
        self.answer = answer
        self.context = copy_context()
        self.started = False
        self.abandoned = False
        self.delivered = False
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        self.begin()
        try:
            self.value = self.context.run(self.function)
        except BaseException as error:  # noqa: BLE001 - handed to whoever awaits the call
            self.error = error


class Threads:
    """A pool that grows on demand up to `size`."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._numbers = itertools.count(1)
        self._done: deque[_Call] = deque()
        self._closed = False

    async def run(self, function: Callable[[], Any], begin: Callable[[], None]) -> Any:
        """Call the function in a thread, in a copy of this task's context. `begin` is called there
        first, when a thread is free. A cancel withdraws a call that still waits for a thread. A
        call that has started is waited for, and its result stands."""
        call = _Call(function, begin, self._loop.create_future())
        self._submit(call)
        while not call.answer.done():
            try:
                await call.answer
            except asyncio.CancelledError:
                if self._withdraw(call):
                    raise
        error, call.error = call.error, None
        try:
            if error is not None:
                raise error
            return call.value
        finally:
            # The error refers to this frame: a frame that kept the error would free neither.
            del error, call

    def resize(self, size: int) -> None:
        """Let the pool grow up to this size from now on. Threads that are there stay."""
        with self._lock:
            self._size = size

    def close(self) -> int:
        """Let idle threads go; returns how many are still busy with a call."""
        with self._lock:
            self._closed = True
            busy = self._threads - self._idle
            for _ in range(self._threads):
                self._calls.put(None)
        return busy

    def _submit(self, call: _Call) -> None:
        with self._lock:
            grow = self._calls.qsize() >= self._idle and self._threads < self._size
            self._threads += grow
        self._calls.put(call)
        if grow:
            name = f"holdfast-handler-{next(self._numbers)}"
            threading.Thread(target=self._work, name=name, daemon=True).start()

    def _withdraw(self, call: _Call) -> bool:
        """Whether the slot may stop waiting: the call has not started, or the pool is closed."""
        with self._lock:
            call.abandoned = not call.started
        if call.abandoned or self._closed:
            return True
        if call.answer.cancelled():
            call.answer = self._loop.create_future()
            if call.delivered:  # the answer came after the cancel, and was not taken
                call.answer.set_result(None)
        return False

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            call = self._calls.get()
            with self._lock:
                self._idle -= 1
                if call is None:
                    self._threads -= 1
                    return
                call.started = not call.abandoned
            if call.started:
                call.run()
                self._deliver_soon(call)
            # The thread must not keep this call alive while it waits for the next one.
            del call

    def _deliver_soon(self, call: _Call) -> None:
        """Calls that end before the loop has woken up share one wakeup: waking the loop is dear."""
        with self._lock:
            first = not self._done
            self._done.append(call)
        if first:
            try:
                self._loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:
                self._done.clear()  # the loop is closed: nobody is left to tell

    def _deliver(self) -> None:
        with self._lock:
            done, self._done = self._done, deque()
        for call in done:
            call.delivered = True
            if not call.answer.done():
                call.answer.set_result(None)
