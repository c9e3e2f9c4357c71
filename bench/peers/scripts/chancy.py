"""Chancy: jobs pushed in batches, the asyncio executor, eager polling."""

from __future__ import annotations

from collections.abc import Sequence

from chancy import Chancy, Queue, Worker, job

from bench.peers.scripts.marks import mark
from bench.peers.scripts.on_postgres import OnPostgres
from bench.peers.scripts.peer import URL

CONCURRENCY = 500  # of 100, 500 and 2,000


@job(queue="q")
async def noop(*, number: int) -> None:
    mark(number)


def queue() -> Queue:
    executor = Chancy.Executor.Async
    return Queue("q", CONCURRENCY, executor=executor, polling_interval=1, eager_polling=True)


class ChancyPeer(OnPostgres):
    async def open(self) -> None:
        self._chancy = Chancy(URL)
        await self._chancy.__aenter__()
        await self._chancy.migrate()
        await self._chancy.declare(queue())

    async def close(self) -> None:
        await self._chancy.__aexit__(None, None, None)

    async def enqueue(self, number: int) -> None:
        await self._chancy.push(noop.job.with_kwargs(number=number))

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        jobs = [noop.job.with_kwargs(number=number) for number in numbers]
        async for _ in self._chancy.push_many(jobs, batch_size=5_000):
            pass

    async def has_finished(self, jobs: int) -> bool:
        return self.value("select count(*) from chancy_jobs where state = 'succeeded'") >= jobs

    async def work(self) -> None:
        async with Chancy(URL) as chancy, Worker(chancy) as worker:
            await worker.wait_for_shutdown()
