"""Limits that hold jobs up: what those cost the others, and how soon a freed permit is used.

`parked`: a full bucket holds up many jobs of one key, and a claim of others is measured beside a
store where none are held up. `many keys`: the same of as many lines. `one at a time`: a key that
lets one begin, beside a claim and a finish of one job without limits. `freed permit`: from before
the finish of the job that holds the permit to the start of the next, in another process.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence

from bench.by_hand import FILL, STRETCHES, ByHand, at_work, by_turns
from bench.measure import HOLDFAST, Contender, Sample, Workload
from bench.places import Place
from bench.program import BESIDE
from bench.scale import Scale
from bench.targets import PICKUP, PLAIN_ONE
from bench.worker_process import worker_processes
from bench.workloads.pickup import SHOW, across_processes, latency
from holdfast.job.ids import JobId
from holdfast.job.record import Claimed
from holdfast.limits.model import Concurrency

FEW_KEYS, MANY_KEYS = 1_000, 100_000
BACKLOG = 10_000
HEAVY = -1
SETTLING, PARKED_FOR = 1.0, 0.05


def parked(place: Place, scale: Scale) -> Sequence[Workload]:
    waits = Contender(HOLDFAST, lambda: beside_parked(place, max(scale.waiting)))
    keys = Contender(HOLDFAST, lambda: with_many_keys(place))
    one = (
        Contender(PLAIN_ONE, lambda: one_by_one(place, "noop", scale.singles)),
        Contender(HOLDFAST, lambda: one_by_one(place, "alone", scale.singles)),
    )
    freed = (
        Contender(PICKUP, lambda: across_processes(place, scale)),
        Contender(HOLDFAST, lambda: freed_permits(place, scale.samples)),
    )
    costs = "{others:.1f} µs a job beside them, {alone:.1f} without"
    return [
        Workload("parked", place.name, (waits,), "ratio", costs, once=True),
        Workload("many keys", place.name, (keys,), "ratio", "{ratio:.2f}", once=True),
        Workload("one at a time", place.name, one),
        Workload("freed permit", place.name, freed, "p50", SHOW),
    ]


async def beside_parked(place: Place, waiting: int) -> Sample:
    with place.apart() as other:
        async with (
            at_work(other, "keyed", lambda n: (n, n % FEW_KEYS)) as reference,
            at_work(place, "keyed", lambda n: (n, n % FEW_KEYS)) as bench,
        ):
            first = await _park(bench, waiting)
            await bench.fill(BACKLOG)
            await reference.fill(BACKLOG)
            others, alone = await by_turns(bench, reference)
            began = time.perf_counter()
            said = await bench.program.app.client.explain(first)
            took = time.perf_counter() - began
            if not said.reasons:
                raise RuntimeError("explain gives no reason why a parked job waits")
    costs = {"others": 1e6 * others, "alone": 1e6 * alone}
    return {"ratio": others / alone, "explain": took, **costs}


async def _park(bench: ByHand, waiting: int) -> JobId:
    """So many jobs of a key that lets none begin; answers one of them."""
    app, task = bench.program.app, bench.program.task
    await app.store.limits.override("tenant", str(HEAVY), Concurrency(0))
    first = await task.enqueue(HEAVY, HEAVY)
    for _ in range(0, waiting, FILL):
        await task.enqueue_many((HEAVY, HEAVY) for _ in range(FILL))
    if await bench.claim(1):
        raise RuntimeError("a job began through a limit of none")
    return first.id


async def with_many_keys(place: Place) -> Sample:
    """One job a key; each claim takes of as many keys as it takes jobs."""
    with place.apart() as other:
        async with (
            at_work(other, "keyed", lambda n: (n, n % FEW_KEYS)) as few,
            at_work(place, "keyed", lambda n: (n, n % MANY_KEYS)) as many,
        ):
            await few.fill(FEW_KEYS)
            await many.fill(MANY_KEYS)
            many_cost, few_cost = await by_turns(many, few)
    return {"ratio": many_cost / few_cost, "many": 1e6 * many_cost, "few": 1e6 * few_cost}


async def one_by_one(place: Place, role: str, jobs: int) -> Sample:
    """The best stretch: a claim and a finish of one job."""
    async with at_work(place, role) as bench:
        await bench.fill(jobs)
        await bench.settle()
        each, best = jobs // STRETCHES, math.inf
        for _ in range(STRETCHES):
            began = time.perf_counter()
            for _ in range(each):
                if await bench.step(1) != 1:
                    raise RuntimeError("a claim of one answered none")
            best = min(best, (time.perf_counter() - began) / each)
    return {"rate": 1 / best}


async def freed_permits(place: Place, samples: int) -> Sample:
    """We hold the only permit with a job of another queue, and a worker in another process waits
    for it, time and again."""
    freed: dict[int, float] = {}
    async with at_work(place, "alone") as bench:
        task = bench.program.task
        with worker_processes(bench.url, slots=1, calls=samples + 1, role="alone") as worker:
            await task.enqueue(-1)
            await worker.have_marked(1)
            await asyncio.sleep(SETTLING)
            for number in range(samples):
                held = await _held_beside(bench, number)
                await task.enqueue(number)
                await asyncio.sleep(PARKED_FOR)
                if worker.count() != number + 1:
                    raise RuntimeError("a job began while another held the only permit")
                freed[number] = time.monotonic()
                await bench.finish(held)
                await worker.have_marked(number + 2)
            return latency(freed, worker.marks())


async def _held_beside(bench: ByHand, number: int) -> list[Claimed]:
    """The permit of the job before comes back a moment after its handler returned."""
    await bench.program.task.using(queue=BESIDE).enqueue(number)
    give_up = time.monotonic() + 10
    while not (held := await bench.claim(1, BESIDE)):
        if time.monotonic() > give_up:
            raise RuntimeError("the permit of a job that ended did not come back within 10 s")
        await asyncio.sleep(0.005)
    return held
