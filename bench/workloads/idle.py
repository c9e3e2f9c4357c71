"""Idle cost: what a worker takes when there is nothing to do, and what running jobs keep.

Processor time as the kernel counts it, in percent of one core; statements per second as the
store sees them; memory as resident pages. Then 5,000 jobs that only wait are given to a worker
with that many slots: the growth of its memory, per 1,000 of them.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Sequence

import psutil

from bench.measure import HOLDFAST, Contender, Sample, Workload
from bench.places import OnPostgres, OnValkey, Place, store_url
from bench.program import noop, waiting
from bench.scale import Scale
from bench.sqlite_trace import BRACKET, LOOK, STATEMENT
from bench.statements import sent_to_postgres, sent_to_valkey
from bench.worker_process import Workers, worker_processes

SLOTS = 50
RUNNING = 5_000
SETTLING = 3.0
STARTING = 12.0
"""Seconds until a worker has surely said the forty statements of its start."""
MIB = 2**20
ROOM = 100_000


def idle(place: Place, scale: Scale) -> Sequence[Workload]:
    contender = Contender(HOLDFAST, lambda: idled(place, scale.idle_seconds))
    show = (
        "{cpu_percent:.2f}% of a core, {statements:.1f} statements/s, {rss_mib:.0f} MiB; "
        "{mib_per_1000:.1f} MiB for 1,000 running jobs"
    )
    return [Workload("idle", place.name, (contender,), "cpu_percent", show, once=True)]


async def idled(place: Place, seconds: float) -> Sample:
    return (
        await at_rest(place, seconds)
        | await statements_sent(place, seconds)
        | await _of_running_jobs(place)
    )


async def at_rest(place: Place, seconds: float) -> Sample:
    async with store_url(place) as url:
        program = noop(url, lambda number: None)
        async with program.app:
            with worker_processes(url, slots=SLOTS, calls=1) as worker:
                await program.task.enqueue(0)
                await worker.have_marked(1)
                await asyncio.sleep(SETTLING)
                process = psutil.Process(worker.processes[0].pid)
                before, began = cpu_of(process), time.monotonic()
                await asyncio.sleep(seconds)
                share = (cpu_of(process) - before) / (time.monotonic() - began)
                return {
                    "cpu_percent": 100 * share,
                    "rss_mib": process.memory_info().rss / MIB,
                }


async def statements_sent(place: Place, seconds: float) -> Sample:
    """In a run of its own: counting them inside a process costs it a little."""
    async with store_url(place) as url:
        if isinstance(place, OnPostgres):
            await place.log_statements(url)
        role = "traced" if place.name == "sqlite" else "noop"
        with worker_processes(url, slots=SLOTS, calls=ROOM, role=role) as worker:
            await asyncio.sleep(STARTING)
            if isinstance(place, OnPostgres):
                return {"statements": await sent_to_postgres(place, seconds)}
            if isinstance(place, OnValkey):
                return {"statements": await sent_to_valkey(place, seconds)}
            return await _marked(worker, seconds)


async def _marked(worker: Workers, seconds: float) -> Sample:
    already = worker.count()
    await asyncio.sleep(seconds)
    kinds = [kind for kind, _ in worker.marks()[already:]]
    return {
        "statements": kinds.count(STATEMENT) / seconds,
        "brackets": kinds.count(BRACKET) / seconds,
        "looks": kinds.count(LOOK) / seconds,
    }


async def _of_running_jobs(place: Place) -> Sample:
    async with store_url(place) as url:
        program = waiting(url, lambda number: None)
        async with program.app:
            with worker_processes(url, slots=RUNNING, calls=RUNNING, role="waiting") as worker:
                await program.task.enqueue(0)
                await worker.have_marked(1)
                before = _rss(worker.processes[0])
                await program.task.enqueue_many((number,) for number in range(1, RUNNING))
                await worker.have_marked(RUNNING)
                await asyncio.sleep(0.5)
                grown = _rss(worker.processes[0]) - before
                return {"mib_per_1000": grown / MIB / (RUNNING / 1000)}


def _rss(process: subprocess.Popen[bytes]) -> int:
    return int(psutil.Process(process.pid).memory_info().rss)


def cpu_of(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
