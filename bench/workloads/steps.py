"""Steps: jobs of ten, jobs of one, and one job with thousands in sequence. Rates are steps a
second.

The floor of the first two writes the same step of a hundred jobs at a time; that of the last writes
one step after the other, each durable before the next.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench import floors
from bench.draining import OFTEN, Load, drained
from bench.measure import FLOOR, HOLDFAST, Contender, Sample, Workload
from bench.places import Place
from bench.scale import Scale

SLOTS, BATCH, FLOOR_JOBS = 500, 100, 2_000
SELDOM = 0.01
"""Seconds between two looks whether the only job has ended. Each look takes the store's time, and
the run is a hundred times as long."""


def steps(place: Place, scale: Scale) -> Sequence[Workload]:
    return [
        _batched("ten steps", place, scale.ten_steps, 10),
        _batched("one step", place, scale.one_step, 1),
        Workload(
            "steps in sequence",
            place.name,
            (
                Contender(FLOOR, lambda: floors.record(place, 1, scale.in_sequence, 1)),
                Contender(HOLDFAST, lambda: ran(place, 1, scale.in_sequence)),
            ),
        ),
    ]


def _batched(name: str, place: Place, jobs: int, steps: int) -> Workload:
    return Workload(
        name,
        place.name,
        (
            Contender(FLOOR, lambda: floors.record(place, FLOOR_JOBS, 10, BATCH)),
            Contender(HOLDFAST, lambda: ran(place, jobs, steps)),
        ),
    )


async def ran(place: Place, jobs: int, steps: int) -> Sample:
    load = Load(
        "steps",
        jobs,
        jobs,
        lambda program: program.task.enqueue_many((n, steps) for n in range(jobs)),
        look_every=SELDOM if jobs == 1 else OFTEN,
    )
    sample = await drained(place, load, slots=SLOTS)
    return {"rate": sample["rate"] * steps, "jobs": sample["rate"]}
