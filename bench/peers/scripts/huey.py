"""Huey on Redis or SQLite: a job leaves the queue before it runs, so a crash loses it."""

from __future__ import annotations

from collections.abc import Sequence

from huey import RedisHuey, SqliteHuey

from bench.peers.scripts.marks import mark
from bench.peers.scripts.peer import URL, Peer

PROCESSES = 2  # of one thread, four threads and two processes
SQLITE = "sqlite://"

if URL.startswith(SQLITE):
    huey = SqliteHuey("q", filename=URL.removeprefix(SQLITE), results=False)
else:
    huey = RedisHuey("q", url=URL, results=False)


@huey.task()
def noop(number: int) -> None:
    mark(number)


class HueyPeer(Peer):
    async def enqueue(self, number: int) -> None:
        noop(number)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        for number in numbers:  # no bulk call
            noop(number)

    async def has_finished(self, jobs: int) -> bool:
        return bool(huey.pending_count() == 0)

    def worker_command(self) -> Sequence[str]:
        """Polls at 10 to 100 ms where the store cannot block, without the periodic scheduler."""
        consumer = ("huey_consumer", "bench.peers.scripts.huey.huey", "--quiet", "--no-periodic")
        workers = ("--worker-type", "process", "--workers", str(PROCESSES))
        return (*consumer, *workers, "--delay", "0.01", "--max-delay", "0.1")
