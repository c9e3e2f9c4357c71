"""Many concurrent calls, few round trips.

A flush starts as soon as the one before it returns: a lone call waits for
nobody, and a thousand that arrive while a flush is on its way share the next
one. There is no timer and no size to tune.

A lone call is flushed by its caller itself, without a task or a turn of the
loop. Those who have to wait are served by a task, which no caller's
cancellation can reach; so is whoever comes in the same turn of the loop as
another, because a flush that never waits would let nobody share it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")

MOST_IN_A_ROW = 50
"""Flushes of one caller without a turn of the loop, where a flush never waits."""


class Batcher(Generic[Item, Answer]):
    """Turns `submit(item)` calls into `flush(items)` calls, answers in order.

    If a flush raises, each of its callers gets that error. If a caller gives up
    while it waits for others, its item still goes out with its batch; if a lone
    caller gives up, its own flush is cancelled and nobody else's.
    """

    def __init__(
        self,
        flush: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        limit: int = 500,
    ) -> None:
        self._flush = flush
        self._limit = limit
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._alone = False
        self._lately: asyncio.Task[object] | None = None
        self._in_a_row = 0
        self._task: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def submit(self, item: Item) -> Answer:
        if self._in_a_row >= MOST_IN_A_ROW:
            await asyncio.sleep(0)  # others want to run, too
        if not self._alone and self._task is None:
            caller = asyncio.current_task()
            if self._lately is None or self._lately is caller:
                return await self._flush_alone(item, caller)
            self._start()
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        return await answer

    async def aclose(self) -> None:
        """Wait until everything submitted has been answered."""
        while self._alone or self._task is not None:
            self._idle.clear()
            await self._idle.wait()

    async def _flush_alone(self, item: Item, caller: asyncio.Task[object] | None) -> Answer:
        self._alone = True
        try:
            [answer] = await self._flush([item])
        finally:
            self._alone = False
            self._remember(caller)
            if self._waiting:
                self._start()
            else:
                self._idle.set()
        return answer

    def _remember(self, caller: asyncio.Task[object] | None) -> None:
        """Who flushed alone, until the loop has turned."""
        self._in_a_row += 1
        if self._lately is None:
            self._lately = caller
            asyncio.get_running_loop().call_soon(self._forget)

    def _forget(self) -> None:
        self._lately, self._in_a_row = None, 0

    def _start(self) -> None:
        self._task = asyncio.create_task(self._drain(), name="holdfast-batcher")

    async def _drain(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[: self._limit]
                del self._waiting[: self._limit]
                await self._send(batch)
                # Callers answered together often call again together: let them, so that they
                # share a batch again instead of the first of them going alone.
                await asyncio.sleep(0)
        finally:
            self._task = None
            self._fail_the_rest()
            self._idle.set()

    async def _send(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._flush([item for item, _ in batch])
            for (_, waiter), answer in zip(batch, answers, strict=True):
                if not waiter.done():
                    waiter.set_result(answer)
        except asyncio.CancelledError:
            for _, waiter in batch:
                waiter.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the callers' to see
            for _, waiter in batch:
                if not waiter.done():
                    waiter.set_exception(error)

    def _fail_the_rest(self) -> None:
        """Only a cancelled drain leaves callers behind; they must not wait forever."""
        for _, waiter in self._waiting:
            waiter.cancel()
        self._waiting.clear()
