"""arq: one transaction and more for each job, polling."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker

from bench.peers.scripts.marks import mark
from bench.peers.scripts.on_redis import OnRedis
from bench.peers.scripts.peer import URL, chunks

MAX_JOBS, POLLING = 500, 0.02  # of 10 and 100 with the usual half second, and this

settings = RedisSettings.from_dsn(URL)


async def noop(context: dict[Any, Any], number: int) -> None:
    mark(number)


class ArqPeer(OnRedis):
    async def open(self) -> None:
        self._pool = await create_pool(settings)

    async def close(self) -> None:
        await self._pool.aclose()

    async def enqueue(self, number: int) -> None:
        await self._pool.enqueue_job("noop", number)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        for some in chunks(numbers, 50):  # no bulk call: singles at the same time
            await asyncio.gather(*(self.enqueue(number) for number in some))

    async def has_finished(self, jobs: int) -> bool:
        return self.watching.zcard("arq:queue") == 0

    async def work(self) -> None:
        worker = Worker([noop], redis_settings=settings, max_jobs=MAX_JOBS, poll_delay=POLLING)
        await worker.main()
