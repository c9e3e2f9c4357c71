"""DBOS on Postgres or SQLite: each job is a durable workflow on a queue."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing

from dbos import DBOS, DBOSClient, DBOSConfig, EnqueueOptions

from bench.peers.scripts.marks import mark
from bench.peers.scripts.on_postgres import OnPostgres
from bench.peers.scripts.peer import URL

CONCURRENCY, POLLING = 100, 0.02  # of 20, 100 and 400
SQLITE = "sqlite://"
IN_FILE = URL.startswith(SQLITE)
DONE = f"select count(*) from {'' if IN_FILE else 'dbos.'}workflow_status where status = 'SUCCESS'"

OPTIONS: EnqueueOptions = {"queue_name": "q", "workflow_name": "noop", "app_version": "1"}


@DBOS.workflow(name="noop")
async def noop(number: int) -> None:
    mark(number)


def launch() -> None:
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": URL,
        "run_admin_server": False,
        "log_level": "ERROR",
        "application_version": "1",
        "executor_id": "bench",
    }
    DBOS(config=config)
    DBOS.launch()
    DBOS.register_queue("q", worker_concurrency=CONCURRENCY, polling_interval_sec=POLLING)


class DbosPeer(OnPostgres):
    async def prepare(self) -> None:
        await asyncio.to_thread(launch)
        await asyncio.to_thread(DBOS.destroy)

    async def open(self) -> None:
        self._client = DBOSClient(
            system_database_url=URL, application_name="bench", use_listen_notify=not IN_FILE
        )

    async def close(self) -> None:
        self._client.destroy()

    async def enqueue(self, number: int) -> None:
        self._client.enqueue(OPTIONS, number)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        """No bulk call: singles in one transaction."""
        with self._client._sys_db.engine.begin() as connection:
            for number in numbers:
                self._client.enqueue_in_transaction(connection, OPTIONS, number)

    async def settle(self) -> None:
        if not IN_FILE:
            await super().settle()

    def value(self, query: str) -> int:
        if not IN_FILE:
            return super().value(query)
        with closing(sqlite3.connect(URL.removeprefix(SQLITE))) as connection:
            return int(connection.execute(query).fetchone()[0])

    async def has_finished(self, jobs: int) -> bool:
        return self.value(DONE) >= jobs

    async def work(self) -> None:
        await asyncio.to_thread(launch)
        await asyncio.Event().wait()
