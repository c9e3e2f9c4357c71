"""Bulk enqueue: many jobs in one call."""

from __future__ import annotations

from collections.abc import Sequence

from bench import floors
from bench.measure import FLOOR, HOLDFAST, Contender, Sample, Workload
from bench.places import Place, store_url
from bench.program import noop
from bench.scale import Scale
from bench.stopwatch import Stopwatch


def bulk(place: Place, scale: Scale) -> Sequence[Workload]:
    contenders = (
        Contender(FLOOR, lambda: floors.bulk(place, scale.jobs)),
        Contender(HOLDFAST, lambda: enqueued_at_once(place, scale.jobs)),
    )
    return [Workload("bulk", place.name, contenders)]


async def enqueued_at_once(place: Place, jobs: int) -> Sample:
    async with store_url(place) as url:
        program = noop(url, lambda number: None)
        async with program.app:
            await program.task.enqueue(-1)
            watch = Stopwatch(place)
            await program.task.enqueue_many((number,) for number in range(jobs))
            return watch.per_job(jobs)
