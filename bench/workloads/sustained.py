"""Sustained: jobs keep coming at 60% of what the store, a producer and a worker can do together.

The capacity is measured just before, with the same processes: 40,000 jobs are enqueued, 200 in a
call, as fast as it goes while the worker runs them, until the last handler was called. Then jobs
come every 10 ms by the clock, whether or not those before were handled. A job's time runs from the
moment it was due to be sent, so that a producer which falls behind makes the figures worse, not
better.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from bench.draining import SLOTS
from bench.measure import HOLDFAST, Contender, Sample, Workload, percentiles
from bench.places import Place, store_url
from bench.program import Program, noop
from bench.scale import Scale
from bench.worker_process import Workers, worker_processes

SHARE = 0.6
PROBE = 40_000
CALL = 200  # about as many as come in one beat
BEAT = 0.01
MOST = 100_000  # jobs per second that there is room for


def sustained(place: Place, scale: Scale) -> Sequence[Workload]:
    contender = Contender(HOLDFAST, lambda: kept_up(place, scale.sustained_seconds))
    show = "{p50:.1f} / {p95:.1f} / {p99:.1f} ms at {offered:,.0f}/s"
    return [Workload("sustained", place.name, (contender,), "p50", show, once=True)]


async def kept_up(place: Place, seconds: float) -> Sample:
    async with store_url(place) as url:
        program = noop(url, lambda number: None)
        room = PROBE + int(MOST * seconds)
        async with program.app:
            with worker_processes(url, slots=SLOTS, calls=room) as worker:
                capacity = await _capacity(program, worker)
                await place.settle(url)
                offered = min(SHARE * capacity, MOST)
                due = await _send(program, offered, seconds)
                await worker.have_marked(PROBE + len(due))
                marks = worker.marks()[PROBE:]
    waits = [moment - due[number] for number, moment in marks]
    return percentiles(waits) | {"offered": offered, "capacity": capacity}


async def _capacity(program: Program, worker: Workers) -> float:
    await program.task.enqueue(0)
    await worker.have_marked(1)
    began = time.monotonic()
    for start in range(1, PROBE, CALL):
        numbers = range(start, min(start + CALL, PROBE))
        await program.task.enqueue_many((number,) for number in numbers)
    await worker.have_marked(PROBE)
    return PROBE / (max(moment for _, moment in worker.marks()) - began)


async def _send(program: Program, rate: float, seconds: float) -> list[float]:
    """The moments at which each job was due to be sent, by its number."""
    due: list[float] = []
    began = time.monotonic()
    for beat in range(int(seconds / BEAT)):
        moment = began + beat * BEAT
        await asyncio.sleep(max(0.0, moment - time.monotonic()))
        numbers = range(len(due), int((beat + 1) * BEAT * rate))
        due += [moment] * len(numbers)
        await program.task.enqueue_many((number,) for number in numbers)
    return due
