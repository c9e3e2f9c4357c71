"""Oban for Python: batches claimed in one statement, finished ones acknowledged in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from oban import Oban, job
from oban.schema import install

from bench.peers.scripts.marks import mark
from bench.peers.scripts.on_postgres import OnPostgres
from bench.peers.scripts.peer import URL, chunks

LIMIT = 200  # jobs at once


@job(queue="q")
async def noop(number: int) -> None:
    mark(number)


class ObanPeer(OnPostgres):
    async def open(self) -> None:
        self._pool = await Oban.create_pool(URL)
        await install(self._pool)
        self._oban = await Oban(pool=self._pool).start()

    async def close(self) -> None:
        await self._oban.stop()
        await self._pool.close()

    async def enqueue(self, number: int) -> None:
        await self._oban.enqueue(noop.new(number))

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        for some in chunks(numbers, 1_000):
            await self._oban.enqueue_many(*(noop.new(number) for number in some))

    async def has_finished(self, jobs: int) -> bool:
        return self.value("select count(*) from oban_jobs where state = 'completed'") >= jobs

    async def work(self) -> None:
        async with Oban(pool=await Oban.create_pool(URL), queues={"q": LIMIT}):
            await asyncio.Event().wait()
