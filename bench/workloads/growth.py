"""Growth: what claiming and finishing a job costs as the backlog grows, and beside a history.

Through the store's own contract, so that nothing but the store is measured: batches of 100 are
claimed and finished, and as many are added in between, untimed, so that the backlog keeps its
size. Each size has a store of its own and takes turns with a store of the smallest size: ten
stretches of 1,500 jobs each, of which the best counts. In the largest the whole backlog is then
finished, and the smallest size measured beside that history.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from bench.measure import HOLDFAST, Contender, Sample, Workload
from bench.places import Place, store_url
from bench.program import QUEUE, Program, noop
from bench.scale import Scale
from holdfast.job.ends import Returned
from holdfast.job.ids import WorkerId, new_worker_id
from holdfast.job.outcome import decide
from holdfast.store.contract.records import Want
from holdfast.store.contract.workers import WorkerInfo

BATCH = 100
STRETCHES, BATCHES, PAUSE = 10, 15, 0.2
FILL = 20_000
A_DAY = timedelta(days=1).total_seconds()
RETURNED = Returned("null")

Costs = tuple[float, float]  # seconds a job here, and in the small store beside


def growth(place: Place, scale: Scale) -> Sequence[Workload]:
    contender = Contender(HOLDFAST, lambda: grown(place, scale.waiting))
    costs = " → ".join(f"{{us_{size}:.1f}}" for size in scale.waiting)
    show = f"{costs} µs a job; {{us_history:.1f}} beside history"
    return [Workload("growth", place.name, (contender,), "growth", show, once=True)]


async def grown(place: Place, sizes: Sequence[int]) -> Sample:
    smallest, largest = min(sizes), max(sizes)
    costs: dict[int, Costs] = {}
    beside_history = (math.nan, math.nan)
    with place.apart() as other:
        async with _at_work(other) as reference:
            await reference.fill(smallest)
            for size in sizes:
                async with _at_work(place) as bench:
                    await bench.fill(size)
                    costs[size] = await _by_turns(bench, reference)
                    if size == largest:
                        while await bench.step(500):
                            pass
                        await bench.fill(smallest)
                        beside_history = await _by_turns(bench, reference)
    return _sample(costs, beside_history)


async def _by_turns(bench: _Bench, reference: _Bench) -> Costs:
    """The best of either, since a shared machine's speed changes from one second to the next."""
    await bench.settle()
    best = (math.inf, math.inf)
    for _ in range(STRETCHES):
        best = (min(best[0], await bench.stretch()), min(best[1], await reference.stretch()))
        await asyncio.sleep(PAUSE)
    return best


def _sample(costs: dict[int, Costs], beside_history: Costs) -> Sample:
    largest = max(costs)
    growth, by_history = _ratio(costs[largest]), _ratio(beside_history)
    sample = {f"us_{size}": 1e6 * cost for size, (cost, _) in costs.items()}
    sample |= {"us_history": 1e6 * beside_history[0], "growth": growth, "by_history": by_history}
    if largest == 1_000_000:
        sample |= {"waiting_1m": growth, "finished_1m": by_history}
    return sample


def _ratio(costs: Costs) -> float:
    return costs[0] / costs[1]


@dataclass(frozen=True, slots=True)
class _Bench:
    """One worker of one store, driven by hand."""

    place: Place
    url: str
    program: Program
    worker: WorkerId

    async def fill(self, jobs: int) -> None:
        for start in range(0, jobs, FILL):
            numbers = range(start, min(jobs, start + FILL))
            await self.program.task.enqueue_many((number,) for number in numbers)

    async def settle(self) -> None:
        await self.place.settle(self.url)

    async def stretch(self) -> float:
        """Seconds a job."""
        took = 0.0
        for _ in range(BATCHES):
            began = time.perf_counter()
            done = await self.step(BATCH)
            took += time.perf_counter() - began
            if done != BATCH:
                raise RuntimeError(f"claimed {done} jobs where more than {BATCH} wait")
            await self.fill(BATCH)
        return took / (BATCH * BATCHES)

    async def step(self, limit: int) -> int:
        jobs = self.program.app.store.jobs
        claimed = await jobs.claim(self.worker, [Want(QUEUE, limit)], ["noop"])
        verdicts = await jobs.finish([decide(job, RETURNED) for job in claimed])
        if not all(verdict.accepted for verdict in verdicts):
            raise RuntimeError("a finish was refused")
        return len(claimed)


@asynccontextmanager
async def _at_work(place: Place) -> AsyncIterator[_Bench]:
    async with store_url(place) as url:
        program = noop(url, lambda number: None)
        async with program.app as app:
            worker = new_worker_id()
            info = WorkerInfo(worker, "bench", "localhost", 0, {QUEUE: BATCH}, ("noop",), "0")
            await app.store.queues.ensure({})
            await app.store.workers.register(info, A_DAY)
            yield _Bench(place, url, program, worker)
