"""DBOS: each job is a durable workflow on a queue."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dbos import DBOS, DBOSClient, DBOSConfig, EnqueueOptions

from bench.peers.scripts.marks import mark
from bench.peers.scripts.on_postgres import OnPostgres
from bench.peers.scripts.peer import URL

CONCURRENCY, POLLING = 100, 0.02  # of 20, 100 and 400

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
            system_database_url=URL, application_name="bench", use_listen_notify=True
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

    async def has_finished(self, jobs: int) -> bool:
        done = "select count(*) from dbos.workflow_status where status = 'SUCCESS'"
        return self.value(done) >= jobs

    async def work(self) -> None:
        await asyncio.to_thread(launch)
        await asyncio.Event().wait()
