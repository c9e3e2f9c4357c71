"""Celery on Redis: prefork, acknowledged late, no result backend."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from celery import Celery

from bench.peers.scripts.marks import mark
from bench.peers.scripts.on_redis import OnRedis
from bench.peers.scripts.peer import URL

PROCESSES, PREFETCH = 2, 128  # of 4, 32 and 128 for each process

app = Celery("bench", broker=URL)
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    task_default_queue="q",
    broker_connection_retry_on_startup=True,
    worker_send_task_events=False,
)


@app.task(name="noop")
def noop(number: int) -> None:
    mark(number)


class CeleryPeer(OnRedis):
    async def open(self) -> None:
        self._producer = app.amqp.Producer(app.connection_for_write())

    async def enqueue(self, number: int) -> None:
        noop.apply_async((number,), producer=self._producer)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        for number in numbers:  # no bulk call: singles by one producer
            noop.apply_async((number,), producer=self._producer)

    async def has_finished(self, jobs: int) -> bool:
        return not self.watching.exists("q", "unacked")

    def worker_command(self) -> Sequence[str]:
        module = type(self).__module__
        worker = (sys.executable, "-m", "celery", "--app", module, "worker", "--queues", "q")
        size = ("--concurrency", str(PROCESSES), "--prefetch-multiplier", str(PREFETCH))
        quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR")
        return (*worker, "--pool", "prefork", *size, *quiet)
