"""Drain: no-op jobs wait, one worker process runs them all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bench import floors
from bench.draining import drained, numbered
from bench.floors.postgres import drain_overlapped
from bench.measure import FLOOR, HOLDFAST, Contender, Sample, Workload
from bench.places import Place, bare_url
from bench.scale import Scale
from bench.stopwatch import Stopwatch


def drain(place: Place, scale: Scale) -> Sequence[Workload]:
    contenders = [Contender(FLOOR, lambda: floors.drain(place, scale.jobs))]
    if place.name == "postgres":
        contenders.append(Contender("floor, overlapped", lambda: _overlapped(place, scale.jobs)))
    contenders.append(Contender(HOLDFAST, lambda: drained(place, numbered(scale.jobs))))
    return [Workload("drain", place.name, contenders)]


async def _overlapped(place: Place, jobs: int) -> Sample:
    async with bare_url(place) as url:
        return await drain_overlapped(url, jobs, partial(Stopwatch, place))
