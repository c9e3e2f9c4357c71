"""Encrypted: a drain of jobs with 1 KiB of arguments and a small result, with and without keys."""

from __future__ import annotations

from collections.abc import Sequence

from bench.draining import Load, drained
from bench.measure import HOLDFAST, Contender, Workload
from bench.places import Place
from bench.program import Program
from bench.scale import Scale
from bench.targets import WITHOUT_KEYS

TEXT = "All work and no play. " * 46  # 1,012 characters


def encrypted(place: Place, scale: Scale) -> Sequence[Workload]:
    contenders = (
        Contender(WITHOUT_KEYS, lambda: drained(place, texts("kilobyte", scale.jobs))),
        Contender(HOLDFAST, lambda: drained(place, texts("encrypted", scale.jobs))),
    )
    return [Workload("encrypted", place.name, contenders)]


def texts(role: str, jobs: int) -> Load:
    async def fill(program: Program) -> None:
        await program.task.enqueue_many((number, TEXT) for number in range(jobs))

    return Load(role, jobs, jobs, fill)
