"""Suspended jobs: what many of them cost a worker that has nothing to do, and how soon they go on.

Processor time of one worker process with none and with all of them, in percent of a core. Then,
with all of them still there and by turns: from before a signal is sent to its handler going on, and
from before an enqueue to the handler's start. Last, many jobs that sleep until one instant: when
the last of them goes on after it, and what that takes of the worker's and the server's processor
time, which a busy machine changes less.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import psutil

from bench.measure import HOLDFAST, Contender, Sample, Workload
from bench.places import Place, store_url
from bench.program import QUEUE, Program, suspended
from bench.scale import Scale
from bench.worker_process import Workers, worker_processes
from bench.workloads.idle import SETTLING, cpu_of
from bench.workloads.pickup import latency
from holdfast.job.state import JobState

SLOTS = 500
AHEAD = 15.0
"""Seconds until the instant at which a thousand jobs wake: by then all of them sleep."""
WITHIN = 600.0


def suspended_jobs(place: Place, scale: Scale) -> Sequence[Workload]:
    contender = Contender(HOLDFAST, lambda: measured(place, scale))
    show = (
        "{cpu_percent:.2f}% of a core, {cpu_alone:.2f}% without them; signal {signal_p50:.1f} ms, "
        "pickup {pickup_p50:.1f} ms (p50); {instant_jobs:,.0f} at one instant within "
        "{instant:.2f} s ({instant_cpu:.2f} s of processor time)"
    )
    return [Workload("suspended", place.name, (contender,), "cpu_percent", show, once=True)]


async def measured(place: Place, scale: Scale) -> Sample:
    async with store_url(place) as url:
        program = suspended(url, lambda number: None)
        async with program.app:
            calls = scale.suspended + 3 * scale.samples + scale.at_one_instant
            with worker_processes(url, slots=SLOTS, calls=calls, role="suspended") as worker:
                await program.task.enqueue(-1, 0.0)
                await worker.have_marked(1)
                alone = await cpu_percent(worker, scale.idle_seconds)
                await suspend(program, scale.suspended)
                beside = await cpu_percent(worker, scale.idle_seconds)
                return {
                    "cpu_alone": alone,
                    "cpu_percent": beside,
                    **await wakes(program, worker, scale),
                    **await at_one_instant(program, worker, place, scale.at_one_instant),
                }


async def cpu_percent(worker: Workers, seconds: float) -> float:
    process = psutil.Process(worker.processes[0].pid)
    await asyncio.sleep(SETTLING)
    before, began = cpu_of(process), time.monotonic()
    await asyncio.sleep(seconds)
    return 100 * (cpu_of(process) - before) / (time.monotonic() - began)


async def suspend(program: Program, count: int) -> list[str]:
    """So many jobs more that wait for a signal."""
    client = program.app.client
    before = (await client.count(queue=QUEUE)).get(JobState.SUSPENDED, 0)
    handles = await program.task.enqueue_many((number,) for number in range(count))
    give_up = time.monotonic() + WITHIN
    while (await client.count(queue=QUEUE)).get(JobState.SUSPENDED, 0) < before + count:
        if time.monotonic() > give_up:
            raise RuntimeError(f"{count} jobs were not suspended within {WITHIN:g} s")
        await asyncio.sleep(0.1)
    return [handle.id for handle in handles]


async def wakes(program: Program, worker: Workers, scale: Scale) -> Sample:
    """By turns, so that whatever else the machine does meets both alike."""
    ids = await suspend(program, scale.samples)
    signalled: dict[int, float] = {}
    enqueued: dict[int, float] = {}
    already = worker.count()
    for number, job in enumerate(ids):
        signalled[number] = time.monotonic()
        await program.app.client.signals.send(job, "go")
        await asyncio.sleep(scale.gap)
        enqueued[scale.samples + number] = time.monotonic()
        await program.task.enqueue(scale.samples + number, 0.0)
        await asyncio.sleep(scale.gap)
    await worker.have_marked(already + 2 * scale.samples)
    marks = worker.marks()[already:]
    signal, pickup = latency(signalled, marks), latency(enqueued, marks)
    return {
        "signal_p50": signal["p50"],
        "signal_p99": signal["p99"],
        "pickup_p50": pickup["p50"],
        "ratio": signal["p50"] / pickup["p50"],
    }


async def at_one_instant(program: Program, worker: Workers, place: Place, count: int) -> Sample:
    """Seconds from the instant to the last of the jobs that sleep until it."""
    process, ahead = psutil.Process(worker.processes[0].pid), AHEAD * max(1.0, count / 1_000 / 5)
    already, instant = worker.count(), time.monotonic() + ahead
    moment = time.time() + ahead
    await program.task.enqueue_many((number, moment) for number in range(count))
    await asyncio.sleep(max(0.0, instant - 0.5 - time.monotonic()))
    before = cpu_of(process) + place.server_seconds()
    await worker.have_marked(already + count, WITHIN)
    took = cpu_of(process) + place.server_seconds() - before
    last = max(at for _, at in worker.marks()[already:]) - instant
    return {
        "instant": last,
        "instant_per_1000": last / count * 1_000,
        "instant_cpu": took,
        "instant_jobs": count,
    }
