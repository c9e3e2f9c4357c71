"""One worker of one store, driven by hand: batches are claimed and finished through the contract,
so that nothing but the store is measured."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from bench.places import Place, store_url
from bench.program import QUEUE, ROLES, Program
from holdfast.job.ends import Returned
from holdfast.job.ids import WorkerId, new_worker_id
from holdfast.job.outcome import decide
from holdfast.job.record import Claimed
from holdfast.store.contract.records import Want
from holdfast.store.contract.workers import WorkerInfo

BATCH = 100
STRETCHES, BATCHES, PAUSE = 10, 15, 0.2
FILL = 20_000
A_DAY = timedelta(days=1).total_seconds()
RETURNED = Returned("null")

Costs = tuple[float, float]  # seconds a job here, and in the store beside
Arguments = Callable[[int], tuple[Any, ...]]  # of the job with this number


def only_its_number(number: int) -> tuple[int]:
    return (number,)


@dataclass(frozen=True, slots=True)
class ByHand:
    place: Place
    url: str
    program: Program
    worker: WorkerId
    arguments: Arguments
    numbers: Iterator[int] = field(default_factory=itertools.count)

    async def fill(self, jobs: int) -> None:
        for start in range(0, jobs, FILL):
            numbers = itertools.islice(self.numbers, min(FILL, jobs - start))
            await self.program.task.enqueue_many(self.arguments(number) for number in numbers)

    async def settle(self) -> None:
        await self.place.settle(self.url)

    async def stretch(self, batch: int = BATCH) -> float:
        """Seconds a job. As many are added as were finished, untimed."""
        took = 0.0
        for _ in range(BATCHES):
            began = time.perf_counter()
            done = await self.step(batch)
            took += time.perf_counter() - began
            if done != batch:
                raise RuntimeError(f"claimed {done} jobs where more than {batch} wait")
            await self.fill(batch)
        return took / (batch * BATCHES)

    async def step(self, limit: int) -> int:
        claimed = await self.claim(limit)
        await self.finish(claimed)
        return len(claimed)

    async def claim(self, limit: int, queue: str = QUEUE) -> list[Claimed]:
        jobs = self.program.app.store.jobs
        return await jobs.claim(self.worker, [Want(queue, limit)], [self.program.task.name])

    async def finish(self, claimed: list[Claimed]) -> None:
        jobs = self.program.app.store.jobs
        verdicts = await jobs.finish([decide(job, RETURNED) for job in claimed])
        if not all(verdict.accepted for verdict in verdicts):
            raise RuntimeError("a finish was refused")


@asynccontextmanager
async def at_work(
    place: Place, role: str = "noop", arguments: Arguments = only_its_number
) -> AsyncIterator[ByHand]:
    async with store_url(place) as url:
        program = ROLES[role](url, lambda number: None)
        async with program.app as app:
            worker, tasks = new_worker_id(), (program.task.name,)
            info = WorkerInfo(worker, "bench", "localhost", 0, {QUEUE: BATCH}, tasks, "0")
            await app.store.queues.ensure({})
            await app.store.limits.declare({n: o.settings for n, o in app.limits.items()})
            await app.store.workers.register(info, A_DAY)
            yield ByHand(place, url, program, worker, arguments)


async def by_turns(one: ByHand, other: ByHand) -> Costs:
    """The best of either, since a shared machine's speed changes from one second to the next."""
    await one.settle()
    await other.settle()
    best = (math.inf, math.inf)
    for _ in range(STRETCHES):
        best = (min(best[0], await one.stretch()), min(best[1], await other.stretch()))
        await asyncio.sleep(PAUSE)
    return best
