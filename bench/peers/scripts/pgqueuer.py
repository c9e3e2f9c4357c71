"""PgQueuer: claims a batch in one statement, finishes in buffered batches, LISTEN/NOTIFY."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.peers.scripts.marks import mark
from bench.peers.scripts.on_postgres import OnPostgres
from bench.peers.scripts.peer import URL, chunks

BATCH = 500  # of 10, 100, 500 and 100 with three consumers in the process


class PgQueuerPeer(OnPostgres):
    entrypoints: ClassVar[Sequence[str]] = ("noop",)
    options: ClassVar[Mapping[str, int]] = {}
    """Of each entrypoint; the scripts with limits differ in these alone."""

    async def prepare(self) -> None:
        connection = await asyncpg.connect(URL)
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    async def open(self) -> None:
        self._connection = await asyncpg.connect(URL)
        self._queries = Queries(AsyncpgDriver(self._connection))

    async def close(self) -> None:
        await self._connection.close()

    async def enqueue(self, number: int) -> None:
        await self._queries.enqueue(self._entrypoint(number), str(number).encode(), 0)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        for some in chunks(numbers, 5_000):
            payloads: list[bytes | None] = [str(number).encode() for number in some]
            entrypoints = [self._entrypoint(number) for number in some]
            await self._queries.enqueue(entrypoints, payloads, [0] * len(some))

    def _entrypoint(self, number: int) -> str:
        return self.entrypoints[number % len(self.entrypoints)]

    async def has_finished(self, jobs: int) -> bool:
        return self.value("select count(*) from pgqueuer") == 0

    async def work(self) -> None:
        consumer = PgQueuer(AsyncpgDriver(await asyncpg.connect(URL)))

        async def noop(job: Job) -> None:
            mark(int(job.payload or b""))

        for entrypoint in self.entrypoints:
            consumer.entrypoint(entrypoint, **self.options)(noop)
        await consumer.run(batch_size=BATCH)
