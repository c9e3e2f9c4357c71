"""Growth: what claiming and finishing a job costs as the backlog grows, and beside a history.

Through the store's own contract, so that nothing but the store is measured: batches of 100 are
claimed and finished, and as many are added in between, untimed, so that the backlog keeps its
size. At each size the best of three stretches of 5,000 jobs counts. At the end the whole backlog
is finished, and the smallest size is measured once more beside that history.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

from bench.measure import HOLDFAST, Contender, Sample, Workload
from bench.places import Place, store_url
from bench.program import QUEUE, Program, noop
from bench.scale import Scale
from holdfast.ends import Returned
from holdfast.job import WorkerId, new_worker_id
from holdfast.outcome import decide
from holdfast.store.contract import Store
from holdfast.store.records import Want, WorkerInfo

BATCH = 100
STRETCHES, BATCHES = 3, 50
FILL = 20_000
A_DAY = timedelta(days=1).total_seconds()
RETURNED = Returned("null")


def growth(place: Place, scale: Scale) -> Sequence[Workload]:
    contender = Contender(HOLDFAST, lambda: grown(place, scale.waiting))
    costs = " → ".join(f"{{us_{size}:.1f}}" for size in scale.waiting)
    show = f"{costs} µs a job; {{us_history:.1f}} beside history"
    return [Workload("growth", place.name, (contender,), "growth", show, once=True)]


async def grown(place: Place, sizes: Sequence[int]) -> Sample:
    async with store_url(place) as url:
        program = noop(url, lambda number: None)
        async with program.app as app:
            worker = await _registered(app.store)
            costs, waiting = {}, 0
            for size in sizes:
                await _fill(program, size - waiting)
                await place.settle(url)
                costs[size] = await _cost(program, worker)
                waiting = size
            while await _step(app.store, worker, 500):
                pass
            await _fill(program, sizes[0])
            await place.settle(url)
            return _sample(costs, await _cost(program, worker))


def _sample(costs: dict[int, float], beside_history: float) -> Sample:
    smallest, largest = min(costs), max(costs)
    growth, by_history = costs[largest] / costs[smallest], beside_history / costs[smallest]
    sample = {f"us_{size}": 1e6 * cost for size, cost in costs.items()}
    sample |= {"us_history": 1e6 * beside_history, "growth": growth, "by_history": by_history}
    if largest == 1_000_000:
        sample |= {"waiting_1m": growth, "finished_1m": by_history}
    return sample


async def _registered(store: Store) -> WorkerId:
    worker = new_worker_id()
    info = WorkerInfo(worker, "bench", "localhost", 0, {QUEUE: BATCH}, ("noop",), "0")
    await store.queues.ensure({})
    await store.workers.register(info, A_DAY)
    return worker


async def _fill(program: Program, jobs: int) -> None:
    for start in range(0, jobs, FILL):
        numbers = range(start, min(jobs, start + FILL))
        await program.task.enqueue_many((number,) for number in numbers)


async def _cost(program: Program, worker: WorkerId) -> float:
    """Seconds a job."""
    return min([await _stretch(program, worker) for _ in range(STRETCHES)])


async def _stretch(program: Program, worker: WorkerId) -> float:
    took = 0.0
    for _ in range(BATCHES):
        began = time.perf_counter()
        done = await _step(program.app.store, worker, BATCH)
        took += time.perf_counter() - began
        if done != BATCH:
            raise RuntimeError(f"claimed {done} jobs where more than {BATCH} wait")
        await _fill(program, BATCH)
    return took / (BATCH * BATCHES)


async def _step(store: Store, worker: WorkerId, limit: int) -> int:
    claimed = await store.jobs.claim(worker, [Want(QUEUE, limit)], ["noop"])
    verdicts = await store.jobs.finish([decide(job, RETURNED) for job in claimed])
    if not all(verdict.accepted for verdict in verdicts):
        raise RuntimeError("a finish was refused")
    return len(claimed)
