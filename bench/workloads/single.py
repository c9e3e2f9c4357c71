"""Single enqueue: one caller, one job after the other; and a hundred callers at once.

The callers share the client, as the requests of a web server do, so their jobs share round
trips; each still waits until its own job is durable before it enqueues the next.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from bench import floors
from bench.measure import FLOOR, HOLDFAST, Contender, Sample, Workload
from bench.places import Place, store_url
from bench.program import Program, noop
from bench.scale import Scale
from bench.targets import HUNDRED_CALLERS

CALLERS = 100


def single(place: Place, scale: Scale) -> Sequence[Workload]:
    each = scale.jobs // CALLERS
    contenders = (
        Contender(FLOOR, lambda: floors.single(place, scale.singles)),
        Contender(HOLDFAST, lambda: enqueued(place, callers=1, each=scale.singles)),
        Contender(HUNDRED_CALLERS, lambda: enqueued(place, callers=CALLERS, each=each)),
    )
    return [Workload("single", place.name, contenders)]


async def enqueued(place: Place, *, callers: int, each: int) -> Sample:
    async with store_url(place) as url:
        program = noop(url, lambda number: None)
        async with program.app:
            await program.task.enqueue(-1)
            began = time.perf_counter()
            await asyncio.gather(*(_call(program, each) for _ in range(callers)))
            return {"rate": callers * each / (time.perf_counter() - began)}


async def _call(program: Program, times: int) -> None:
    for number in range(times):
        await program.task.enqueue(number)
