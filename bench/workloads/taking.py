"""Take: two processes take from one rate that holds nobody up, as handlers do with `ctx.take`. Each
has one call under way, as a process has however many of its handlers ask. One permit a call, and a
hundred.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from pathlib import Path

from bench.measure import HOLDFAST, Contender, Sample, Workload
from bench.places import Place, store_url
from bench.scale import Scale
from bench.taker import LIMIT
from bench.targets import HUNDRED_PERMITS
from holdfast.limits.model import Rate
from holdfast.store.open import open_store

PROCESSES, SECONDS, UNITS = 2, 2.0, 100
WIDE = Rate(10**12, per=60)
ROOT = Path(__file__).parents[2]


def taking(place: Place, scale: Scale) -> Sequence[Workload]:
    contenders = (
        Contender(HOLDFAST, lambda: taken(place, 1)),
        Contender(HUNDRED_PERMITS, lambda: taken(place, UNITS)),
    )
    return [Workload("take", place.name, contenders, show="{rate:,.0f} permits/s")]


async def taken(place: Place, units: int) -> Sample:
    async with store_url(place) as url:
        store = open_store(url)
        await store.open()
        try:
            await store.limits.declare({LIMIT: WIDE})
            calls = await _calls_of_all(url, units)
        finally:
            await store.close()
    return {"rate": units * sum(count / seconds for count, seconds in calls)}


async def _calls_of_all(url: str, units: int) -> list[tuple[int, float]]:
    command = (sys.executable, "-m", "bench.taker", url, str(SECONDS), str(units))
    processes = [
        await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=PIPE, stdout=PIPE)
        for _ in range(PROCESSES)
    ]
    for process in processes:
        if process.stdout is not None:
            await process.stdout.readline()
    told = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    return [(count, seconds) for said, _ in told for count, seconds in [json.loads(said)]]
