"""SAQ on Postgres or Redis: one round trip and more for each job."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from saq import Queue, Worker

from bench.peers.scripts.marks import mark
from bench.peers.scripts.on_postgres import OnPostgres
from bench.peers.scripts.peer import URL, chunks

CONCURRENCY = 50  # of 10, 20, 50 and 100
AT_ONCE = 500 if URL.startswith("postgres") else 100


async def noop(context: Any, *, number: int) -> None:
    mark(number)


def queue() -> Queue:
    pool = {"min_size": 4, "max_size": 20} if URL.startswith("postgres") else {}
    return Queue.from_url(URL, name="q", **pool)


class SaqPeer(OnPostgres):
    async def open(self) -> None:
        self._queue = queue()
        await self._queue.connect()

    async def close(self) -> None:
        await self._queue.disconnect()

    async def enqueue(self, number: int) -> None:
        await self._queue.enqueue("noop", number=number)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        for some in chunks(numbers, AT_ONCE):  # no bulk call: singles at the same time
            await asyncio.gather(*(self.enqueue(number) for number in some))

    async def settle(self) -> None:
        if URL.startswith("postgres"):
            await super().settle()

    async def has_finished(self, jobs: int) -> bool:
        return bool(await self._queue.count("incomplete") == 0)

    async def work(self) -> None:
        mine = queue()
        await mine.connect()
        await Worker(mine, functions=[("noop", noop)], concurrency=CONCURRENCY).start()
