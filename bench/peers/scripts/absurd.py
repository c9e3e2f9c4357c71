"""Absurd: each job is a durable task; the schema comes with its command line."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import psycopg
from absurd_sdk import AsyncAbsurd
from absurdctl import BUNDLED_SCHEMA_SQL

from bench.peers.scripts.marks import mark
from bench.peers.scripts.on_postgres import OnPostgres
from bench.peers.scripts.peer import URL

QUEUE, CONCURRENCY, POLLING = "q", 100, 0.02

app = AsyncAbsurd(URL, queue_name=QUEUE)


@app.register_task("noop")
async def noop(params: Any, ctx: Any) -> None:
    mark(params["number"])


class AbsurdPeer(OnPostgres):
    async def prepare(self) -> None:
        with psycopg.connect(URL, autocommit=True) as connection:
            connection.execute(BUNDLED_SCHEMA_SQL.encode())
        await app.create_queue(QUEUE)

    async def close(self) -> None:
        await app.close()

    async def enqueue(self, number: int) -> None:
        await app.spawn("noop", {"number": number})

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        """No bulk call: singles."""
        for number in numbers:
            await app.spawn("noop", {"number": number})

    async def has_finished(self, jobs: int) -> bool:
        return (
            self.value(f"select count(*) from absurd.t_{QUEUE} where state = 'completed'") >= jobs
        )

    async def work(self) -> None:
        await app.start_worker(concurrency=CONCURRENCY, poll_interval=POLLING)
        await asyncio.Event().wait()
