"""Many concurrent calls, few round trips.

A flush starts as soon as the one before it has returned, so a lone call waits for nobody, and a
thousand calls that arrive during a flush share the next one, up to `limit` at a time. There is no
timer.

A lone caller flushes its own item, without a task and without a turn of the event loop. Callers
that arrive while a flush runs, or in the same turn of the loop as another caller, are flushed
together by a background task, so cancelling one caller never cancels the flush of the others.
Callers of one turn must share a task because a flush may return without waiting (SQLite): each of
them would flush alone. ADR 16 says what both are worth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")

MOST_IN_A_TURN = 50
"""Flushes that one caller may do within one turn of the loop, where a flush never waits."""


class Batcher(Generic[Item, Answer]):
    """Turns `submit(item)` calls into `flush(items)` calls, whose answers come in order.

    If a flush raises, each of its callers gets that error. An answer that is an exception is
    raised to the caller of that item. If a caller gives up while it waits, its item still goes out
    with its batch. If a lone caller gives up, its own flush is cancelled and nobody else's.
    """

    def __init__(
        self,
        flush: Callable[[Sequence[Item]], Awaitable[Sequence[Answer | Exception]]],
        *,
        limit: int = 500,
    ) -> None:
        self._flush = flush
        self._limit = limit
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._alone = False
        self._lone_caller: asyncio.Task[object] | None = None
        self._in_this_turn = 0
        self._task: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def submit(self, item: Item) -> Answer:
        if self._in_this_turn >= MOST_IN_A_TURN:
            await asyncio.sleep(0)  # other tasks want to run, too
        if not self._alone and self._task is None:
            caller = asyncio.current_task()
            if self._lone_caller is None or self._lone_caller is caller:
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
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _remember(self, caller: asyncio.Task[object] | None) -> None:
        """Until the loop has turned, only this caller may flush alone again."""
        self._in_this_turn += 1
        if self._lone_caller is None:
            self._lone_caller = caller
            asyncio.get_running_loop().call_soon(self._forget)

    def _forget(self) -> None:
        self._lone_caller, self._in_this_turn = None, 0

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
                if waiter.done():
                    continue
                if isinstance(answer, Exception):
                    waiter.set_exception(answer)
                else:
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
        """Only a cancelled drain leaves callers behind; they must not wait for ever."""
        for _, waiter in self._waiting:
            waiter.cancel()
        self._waiting.clear()
