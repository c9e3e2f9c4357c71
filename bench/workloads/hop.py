"""Hop: from the end of a node to the start of the handler behind it, in a worker that is idle.

A chain of no-op nodes: its handlers take no time, so a hop is the time between the marks of two
neighbours. The floor is the bare hop: end a node and release the one behind it, claim that one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import pairwise

from bench import floors
from bench.measure import FLOOR, HOLDFAST, Contender, Sample, Workload, percentiles
from bench.places import Place, store_url
from bench.program import node
from bench.scale import Scale
from bench.shapes import chain
from bench.worker_process import worker_processes

SLOTS = 50
SETTLING = 1.0
SHOW = "{p50:.2f} / {p95:.2f} / {p99:.2f} ms"


def hop(place: Place, scale: Scale) -> Sequence[Workload]:
    contenders = (
        Contender(FLOOR, lambda: floors.hop(place, scale.hops)),
        Contender(HOLDFAST, lambda: hopped(place, scale.hops)),
    )
    return [Workload("hop", place.name, contenders, "p50", SHOW)]


async def hopped(place: Place, nodes: int) -> Sample:
    async with store_url(place) as url:
        program = node(url, lambda number: None)
        async with program.app:
            with worker_processes(url, slots=SLOTS, calls=nodes + 1, role="node") as worker:
                await program.task.enqueue(-1)
                await worker.have_marked(1)
                await asyncio.sleep(SETTLING)
                await chain(program, 0, nodes).start()
                await worker.have_marked(nodes + 1)
                return percentiles(between(worker.marks()[1:]))


def between(marks: Iterable[tuple[int, float]]) -> list[float]:
    """The time of each hop of a chain."""
    moments = [moment for _, moment in sorted(marks)]
    return [later - sooner for sooner, later in pairwise(moments)]
