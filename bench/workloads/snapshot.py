"""Snapshot: Postgres while somebody keeps a transaction open, as a forgotten session or a long
report does. Nothing that was deleted since can be vacuumed, so dead rows pile up before the
head of the line.

The same drain is measured under it in the fresh database, and after 200,000 jobs went through;
between the two, most of those are drained in one go, and that rate is shown as well. The same
without the snapshot stands beside it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg

from bench.draining import drained_at, numbered
from bench.measure import HOLDFAST, Contender, Sample, Workload
from bench.places import Place, store_url
from bench.scale import Scale

PROCESSED = 200_000


def snapshot(place: Place, scale: Scale) -> Sequence[Workload]:
    """For Postgres alone: in the other stores a reader keeps nothing alive."""
    if place.name != "postgres":
        return []
    contenders = (
        Contender("holdfast, no snapshot", lambda: aged(place, scale.jobs, pinned=False)),
        Contender(HOLDFAST, lambda: aged(place, scale.jobs, pinned=True)),
    )
    show = "{fresh:,.0f} → {late:,.0f}/s, {between:,.0f}/s between"
    return [Workload("snapshot", place.name, contenders, "kept", show, once=True)]


async def aged(place: Place, jobs: int, *, pinned: bool) -> Sample:
    async with store_url(place) as url, _held_open(url, pinned):
        fresh = await _best_of_two(url, place, jobs)
        between = await drained_at(url, place, numbered(PROCESSED - 2 * jobs))
        late = await _best_of_two(url, place, jobs)
    return {"fresh": fresh, "late": late, "between": between["rate"], "kept": late / fresh}


async def _best_of_two(url: str, place: Place, jobs: int) -> float:
    """Half a second each, so one bad moment would decide."""
    return max([(await drained_at(url, place, numbered(jobs)))["rate"] for _ in range(2)])


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
