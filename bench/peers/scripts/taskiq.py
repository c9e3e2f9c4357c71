"""Taskiq on a Redis stream, the broker that acknowledges; no result backend."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from taskiq_redis import RedisStreamBroker

from bench.peers.scripts.marks import mark
from bench.peers.scripts.on_redis import OnRedis
from bench.peers.scripts.peer import URL, chunks

MAX_TASKS = 32  # of 32, 100 and 300

broker = RedisStreamBroker(URL, queue_name="q", consumer_id="0", maxlen=200_000)


@broker.task(task_name="noop")
async def noop(number: int) -> None:
    mark(number)


class TaskiqPeer(OnRedis):
    async def open(self) -> None:
        await broker.startup()

    async def enqueue(self, number: int) -> None:
        await noop.kiq(number)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        for some in chunks(numbers, 100):  # no bulk call: singles at the same time
            await asyncio.gather(*(noop.kiq(number) for number in some))

    async def has_finished(self, jobs: int) -> bool:
        [group] = self.watching.xinfo_groups("q")
        return group["pending"] == 0 and not group.get("lag")

    def worker_command(self) -> Sequence[str]:
        limits = ("--max-async-tasks", str(MAX_TASKS), "--max-prefetch", str(MAX_TASKS))
        worker = ("taskiq", "worker", f"{__name__}:broker", "--workers", "1")
        return (*worker, *limits, "--log-level", "ERROR")
