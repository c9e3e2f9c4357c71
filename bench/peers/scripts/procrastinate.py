"""Procrastinate: one statement to fetch each job and one to finish it, LISTEN/NOTIFY."""

from __future__ import annotations

from collections.abc import Sequence

from procrastinate import App, PsycopgConnector

from bench.peers.scripts.marks import mark
from bench.peers.scripts.on_postgres import OnPostgres
from bench.peers.scripts.peer import URL, chunks

CONCURRENCY = 5  # of 5, 20 and 50

app = App(connector=PsycopgConnector(conninfo=URL, max_size=20))


@app.task(queue="q", name="noop")
async def noop(number: int) -> None:
    mark(number)


class ProcrastinatePeer(OnPostgres):
    async def open(self) -> None:
        await app.open_async()
        await app.schema_manager.apply_schema_async()

    async def close(self) -> None:
        await app.close_async()

    async def enqueue(self, number: int) -> None:
        await noop.defer_async(number=number)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        for some in chunks(numbers, 5_000):
            await noop.batch_defer_async(*({"number": number} for number in some))

    async def has_finished(self, jobs: int) -> bool:
        live = "select count(*) from procrastinate_jobs where status in ('todo', 'doing')"
        return self.value(live) == 0

    async def work(self) -> None:
        async with app.open_async():
            await app.run_worker_async(queues=["q"], concurrency=CONCURRENCY)
