"""Lone ends: eight processes, each of which ends jobs one at a time, as the last ends of a batch or
slow handlers do. The nodes are all of one flow, which has one join, so that every end waits for
the same counter; plain jobs share nothing.

Through the store's own contract: every process has claimed its jobs before, and only ends are
timed, from the first to the last of all processes.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from bench.measure import HOLDFAST, Contender, Sample, Workload, percentiles
from bench.places import Place, store_url
from bench.program import Program, noop
from bench.scale import Scale
from bench.shapes import fan
from bench.targets import PLAIN_ENDS

PROCESSES = 8
ROOT = Path(__file__).parents[2]

Fill = Callable[[Program, int], Awaitable[object]]


def lone_ends(place: Place, scale: Scale) -> Sequence[Workload]:
    jobs = scale.lone_ends
    contenders = (
        Contender(PLAIN_ENDS, lambda: ended(place, jobs, plain)),
        Contender(HOLDFAST, lambda: ended(place, jobs, one_flow)),
    )
    show = "{rate:,.0f}/s, p99 {p99:.0f} ms"
    return [Workload("lone ends", place.name, contenders, show=show)]


async def plain(program: Program, jobs: int) -> None:
    await program.task.enqueue_many((number,) for number in range(jobs))


async def one_flow(program: Program, jobs: int) -> None:
    await fan(program, 0, jobs + 1).start()


async def ended(place: Place, jobs: int, fill: Fill) -> Sample:
    async with store_url(place) as url:
        program = noop(url, lambda number: None)
        async with program.app as app:
            await app.store.queues.ensure({})
            await fill(program, jobs)
            await place.settle(url)
            ends = await _ends_of_all(url, jobs // PROCESSES)
    began, over = min(at for at, _ in ends), max(at + took for at, took in ends)
    return percentiles([took for _, took in ends]) | {"rate": len(ends) / (over - began)}


async def _ends_of_all(url: str, each: int) -> list[tuple[float, float]]:
    command = (sys.executable, "-m", "bench.lone_ender", url, str(each))
    processes = [
        await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=PIPE, stdout=PIPE)
        for _ in range(PROCESSES)
    ]
    for process in processes:
        if process.stdout is not None:
            await process.stdout.readline()
    told = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    return [(at, took) for said, _ in told for at, took in json.loads(said)]
