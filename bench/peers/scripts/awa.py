"""Awa: a Rust core behind Python handlers, compact rows for each batch of claims and ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import awa

from bench.peers.scripts.marks import mark
from bench.peers.scripts.on_postgres import OnPostgres
from bench.peers.scripts.peer import URL

MAX_WORKERS, CLAIM_BATCH = 2_048, 512  # of 128, 512, 1,024 and 2,048 workers

COMPLETED = """
    select coalesce((select sum(completed_count) from awa.receipt_completion_batches), 0)
         + (select count(*) from awa.done_entries where state = 'completed')
         + coalesce((select sum(pruned_completed_count) from awa.queue_terminal_rollups), 0)
"""
"""Its own `queue_stats()` is slow and lags behind."""


@dataclass
class Noop:
    number: int


class AwaPeer(OnPostgres):
    async def prepare(self) -> None:
        client = awa.AsyncClient(URL)
        await client.migrate()
        await client.install_queue_storage()  # else the first worker does it, in measured time
        await client.close()

    async def open(self) -> None:
        self._client = awa.AsyncClient(URL)

    async def close(self) -> None:
        await self._client.close()

    async def enqueue(self, number: int) -> None:
        await self._client.insert(Noop(number), queue="q")

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        await self._client.enqueue_many_copy([Noop(number) for number in numbers], queue="q")

    async def has_finished(self, jobs: int) -> bool:
        return self.value(COMPLETED) >= jobs

    async def work(self) -> None:
        client = awa.AsyncClient(URL, max_connections=10)

        @client.task(Noop, queue="q")
        async def noop(job: Any) -> None:
            mark(job.args.number)

        queue = {"name": "q", "max_workers": MAX_WORKERS, "claim_batch_size": CLAIM_BATCH}
        await client.start([queue])
        await asyncio.Event().wait()
