"""RQ: a pool of two workers that do not fork for each job."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rq import Queue
from rq.registry import FinishedJobRegistry

from bench.peers.scripts.marks import mark
from bench.peers.scripts.on_redis import OnRedis
from bench.peers.scripts.peer import URL

WORKERS = 2  # of the forking worker, one SimpleWorker and two


def noop(number: int) -> None:
    mark(number)


class RqPeer(OnRedis):
    async def open(self) -> None:
        self._queue = Queue("q", connection=self.watching)

    async def enqueue(self, number: int) -> None:
        self._queue.enqueue(noop, number)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        self._queue.enqueue_many([Queue.prepare_data(noop, args=(number,)) for number in numbers])

    async def has_finished(self, jobs: int) -> bool:
        finished = FinishedJobRegistry("q", connection=self.watching)
        return finished.get_job_count(cleanup=False) >= jobs

    def worker_command(self) -> Sequence[str]:
        pool = (sys.executable, "-m", "rq.cli", "worker-pool", "--num-workers", str(WORKERS))
        return (*pool, "--quiet", "--url", URL, "--worker-class", "rq.worker.SimpleWorker", "q")
