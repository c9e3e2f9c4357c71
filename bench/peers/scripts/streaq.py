"""streaQ: Redis streams and Lua, results kept for a minute."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import coredis
from streaq import Worker

from bench.peers.scripts.marks import mark
from bench.peers.scripts.peer import URL, Peer

CONCURRENCY = 32  # of 32, 100 and 300

coredis.Config.optimized = True
worker = Worker(
    redis_url=URL, concurrency=CONCURRENCY, queue_name="q", anyio_kwargs={"use_uvloop": True}
)


@worker.task(ttl=60)
async def noop(number: int) -> None:
    mark(number)


class StreaqPeer(Peer):
    async def open(self) -> None:
        """The worker's context must be entered and left by one and the same task."""
        entered, self._leaving = asyncio.Event(), asyncio.Event()
        self._holder = asyncio.create_task(self._hold(entered))
        await asyncio.wait(
            (self._holder, asyncio.create_task(entered.wait())),
            return_when=asyncio.FIRST_COMPLETED,
        )
        if self._holder.done():
            self._holder.result()

    async def _hold(self, entered: asyncio.Event) -> None:
        async with worker:
            entered.set()
            await self._leaving.wait()

    async def close(self) -> None:
        self._leaving.set()
        await self._holder

    async def enqueue(self, number: int) -> None:
        await noop.enqueue(number)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        await worker.enqueue_many([noop.enqueue(number) for number in numbers])

    async def has_finished(self, jobs: int) -> bool:
        return await worker.queue_size() == 0

    def worker_command(self) -> Sequence[str]:
        return ("streaq", "run", f"{__name__}:worker")
