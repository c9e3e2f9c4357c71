"""Snapshot: Postgres while somebody keeps a transaction open, as a forgotten session or a long
report does. Nothing that was deleted since can be vacuumed, so dead rows pile up before the
head of the line.

The same drain is measured under it in the fresh database, and after 200,000 jobs went through;
between the two, most of those are drained in one go, and that rate is shown as well. The same
without the snapshot stands beside it. `limited snapshot` is the same with a limit at one of a
thousand keys, whose buckets and lines are written all the time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import asyncpg

from bench.draining import Load, drained_at, numbered
from bench.measure import HOLDFAST, Contender, Sample, Workload
from bench.places import Place, store_url
from bench.scale import Scale
from bench.workloads.limits import keyed

PROCESSED, KEYS = 200_000, 1_000
Loads = Callable[[int], Load]


def snapshot(place: Place, scale: Scale) -> Sequence[Workload]:
    """For Postgres alone: in the other stores a reader keeps nothing alive."""
    if place.name != "postgres":
        return []
    return [
        _workload("snapshot", place, scale.jobs, numbered),
        _workload("limited snapshot", place, scale.jobs, lambda jobs: keyed(jobs, KEYS)),
    ]


def _workload(name: str, place: Place, jobs: int, load: Loads) -> Workload:
    contenders = (
        Contender("holdfast, no snapshot", lambda: aged(place, jobs, load, pinned=False)),
        Contender(HOLDFAST, lambda: aged(place, jobs, load, pinned=True)),
    )
    show = "{fresh:,.0f} → {late:,.0f}/s, {between:,.0f}/s between"
    return Workload(name, place.name, contenders, "kept", show, once=True)


async def aged(place: Place, jobs: int, load: Loads, *, pinned: bool) -> Sample:
    async with store_url(place) as url, _held_open(url, pinned):
        fresh = await _best_of_two(url, place, load(jobs))
        between = await drained_at(url, place, load(PROCESSED - 2 * jobs))
        late = await _best_of_two(url, place, load(jobs))
    return {"fresh": fresh, "late": late, "between": between["rate"], "kept": late / fresh}


async def _best_of_two(url: str, place: Place, load: Load) -> float:
    """Half a second each, so one bad moment would decide."""
    return max([(await drained_at(url, place, load))["rate"] for _ in range(2)])


@asynccontextmanager
async def _held_open(url: str, pinned: bool) -> AsyncIterator[None]:
    connection = await asyncpg.connect(url)
    try:
        if pinned:
            await connection.execute("begin isolation level repeatable read")
            await connection.fetch("select 1")
        yield
    finally:
        await connection.close()
