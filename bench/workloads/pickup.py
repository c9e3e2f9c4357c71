"""Pickup: an idle worker, one job at a time; from before the enqueue to the handler's start.

`pickup` is between two processes, as a program and its worker are; its floor is the bare store's
wake-up and claim between two connections.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping, Sequence

from bench import floors
from bench.measure import FLOOR, HOLDFAST, Contender, Sample, Workload, percentiles
from bench.places import Place, store_url
from bench.program import QUEUE, Program, noop
from bench.scale import Scale
from bench.stopwatch import Stopwatch
from bench.worker_process import worker_processes

SETTLING = 1.0
SLOTS = 50
SHOW = "{p50:.1f} / {p95:.1f} / {p99:.1f} ms"


def pickup(place: Place, scale: Scale) -> Sequence[Workload]:
    within = (Contender(HOLDFAST, lambda: in_one_process(place, scale)),)
    return [
        across(place, scale),
        Workload("pickup, same process", place.name, within, "p50", SHOW),
    ]


def across(place: Place, scale: Scale) -> Workload:
    contenders = (
        Contender(FLOOR, lambda: floors.pickup(place, scale.samples, scale.gap)),
        Contender(HOLDFAST, lambda: across_processes(place, scale)),
    )
    return Workload("pickup", place.name, contenders, "p50", SHOW)


async def in_one_process(place: Place, scale: Scale) -> Sample:
    began: dict[int, float] = {}
    async with store_url(place) as url:
        program = noop(url, lambda number: began.setdefault(number, time.monotonic()))
        async with program.app.worker(queues={QUEUE: SLOTS}):
            await asyncio.sleep(SETTLING)
            sent = await _send(program, scale)
            await asyncio.sleep(SETTLING)
    return latency(sent, began.items())


async def across_processes(place: Place, scale: Scale) -> Sample:
    async with store_url(place) as url:
        program = noop(url, lambda number: None)
        async with program.app:
            with worker_processes(url, slots=SLOTS, calls=scale.samples + 1) as worker:
                await program.task.enqueue(-1)
                await worker.have_marked(1)
                await asyncio.sleep(SETTLING)
                watch = Stopwatch(place, (os.getpid(), *worker.pids))
                sent = await _send(program, scale)
                await worker.have_marked(scale.samples + 1)
                return watch.per_job(scale.samples) | latency(sent, worker.marks())


async def _send(program: Program, scale: Scale) -> dict[int, float]:
    sent: dict[int, float] = {}
    for number in range(scale.samples):
        sent[number] = time.monotonic()
        await program.task.enqueue(number)
        await asyncio.sleep(max(0.0, sent[number] + scale.gap - time.monotonic()))
    return sent


def latency(sent: Mapping[int, float], began: Iterable[tuple[int, float]]) -> Sample:
    waits = [moment - sent[number] for number, moment in began if number in sent]
    if len(waits) != len(sent):
        raise RuntimeError(f"{len(waits)} of {len(sent)} jobs were picked up")
    return percentiles(waits)
