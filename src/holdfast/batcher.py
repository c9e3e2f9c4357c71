"""Many concurrent calls, few round trips.

A flush starts as soon as the one before it returns: a lone call waits for
nobody, and a thousand that arrive while a flush is on its way share the next
one. There is no timer and no size to tune.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Batcher(Generic[Item, Answer]):
    """Turns `submit(item)` calls into `flush(items)` calls, answers in order.

    If a flush raises, each of its callers gets that error; if a caller gives
    up waiting, its item still goes out with its batch.
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
        self._task: asyncio.Task[None] | None = None

    async def submit(self, item: Item) -> Answer:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._drain(), name="holdfast-batcher")
        return await answer

    async def aclose(self) -> None:
        """Wait until everything submitted has been answered."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _drain(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[: self._limit]
                del self._waiting[: self._limit]
                await self._send(batch)
        finally:
            self._task = None
            self._fail_the_rest()

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
