"""Dramatiq on Redis, without a result backend."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.peers.scripts.marks import mark
from bench.peers.scripts.on_redis import OnRedis
from bench.peers.scripts.peer import URL

PROCESSES, THREADS = 2, 32  # of 1 × 8, 2 × 2, 2 × 8 and 2 × 32

dramatiq.set_broker(RedisBroker(url=URL, namespace="dq"))


@dramatiq.actor(queue_name="q")
def noop(number: int) -> None:
    mark(number)


class DramatiqPeer(OnRedis):
    async def enqueue(self, number: int) -> None:
        noop.send(number)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        for number in numbers:  # no bulk call
            noop.send(number)

    async def has_finished(self, jobs: int) -> bool:
        return not self.watching.exists("dq:q", "dq:q.msgs")

    def worker_command(self) -> Sequence[str]:
        size = ("--processes", str(PROCESSES), "--threads", str(THREADS))
        module = type(self).__module__
        return (sys.executable, "-m", "dramatiq", module, "--queues", "q", *size)
