"""Limits that hold nobody up, beside the same jobs without them: what passing a limit costs.

Whole workers drain jobs whose keys are spread at random; a hundred tasks with a limit each are what
a queue has that limits by task; two processes share one bucket; and many jobs with keys are
enqueued in one call.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from bench.draining import Load, drained, numbered
from bench.measure import HOLDFAST, Contender, Sample, Workload
from bench.places import Place, store_url
from bench.program import HUNDRED, ROLES, Program
from bench.scale import Scale
from bench.targets import KEYS, ONE_WORKER, PLAIN_BULK, PLAIN_DRAIN


def limits(place: Place, scale: Scale) -> Sequence[Workload]:
    return [
        _drains(place, scale.jobs),
        _beside_plain("one limit", place, numbered(scale.jobs, "one_limit")),
        _beside_plain("hundred limits", place, hundred(scale.jobs)),
        _two_processes(place, scale.jobs),
        _bulk(place, scale.jobs),
    ]


def keyed(jobs: int, keys: int) -> Load:
    return Load(
        "keyed", jobs, jobs, lambda program: program.task.enqueue_many(_arguments(jobs, keys))
    )


def hundred(jobs: int) -> Load:
    async def fill(program: Program) -> None:
        for n, task in enumerate(program.app.tasks.values()):
            await task.enqueue_many((number,) for number in range(n, jobs, HUNDRED))

    return Load("hundred_limits", jobs, jobs, fill)


def _arguments(jobs: int, keys: int) -> list[tuple[int, int]]:
    """As many keys as there may be, each as often as the others."""
    chance = random.Random(keys)
    chosen = [n % keys for n in range(jobs)]
    chance.shuffle(chosen)
    return list(enumerate(chosen))


def _drains(place: Place, jobs: int) -> Workload:
    def through(keys: int) -> Contender:
        return Contender(KEYS[keys], lambda: drained(place, keyed(jobs, keys)))

    plain = Contender(PLAIN_DRAIN, lambda: drained(place, numbered(jobs)))
    return Workload("limited drain", place.name, (plain, *map(through, KEYS)))


def _beside_plain(name: str, place: Place, load: Load) -> Workload:
    contenders = (
        Contender(PLAIN_DRAIN, lambda: drained(place, numbered(load.jobs))),
        Contender(HOLDFAST, lambda: drained(place, load)),
    )
    return Workload(name, place.name, contenders)


def _two_processes(place: Place, jobs: int) -> Workload:
    load = numbered(jobs, "one_limit")
    contenders = (
        Contender(ONE_WORKER, lambda: drained(place, load, together=True)),
        Contender(HOLDFAST, lambda: drained(place, load, workers=2, together=True)),
    )
    return Workload("shared limit", place.name, contenders)


def _bulk(place: Place, jobs: int) -> Workload:
    def through(keys: int) -> Contender:
        return Contender(KEYS[keys], lambda: _enqueued(place, "keyed", _arguments(jobs, keys)))

    plain = Contender(PLAIN_BULK, lambda: _enqueued(place, "noop", [(n,) for n in range(jobs)]))
    return Workload("limited bulk", place.name, (plain, *map(through, KEYS)))


async def _enqueued(place: Place, role: str, arguments: Sequence[tuple[int, ...]]) -> Sample:
    async with store_url(place) as url:
        program = ROLES[role](url, lambda number: None)
        async with program.app:
            await program.task.enqueue(*arguments[0])
            began = time.perf_counter()
            await program.task.enqueue_many(arguments)
            return {"rate": len(arguments) / (time.perf_counter() - began)}
