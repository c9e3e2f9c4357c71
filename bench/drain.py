"""Drain: jobs wait, one worker process runs them all.

From the first handler's call until the store shows every job finished; the
worker's start is not counted.
"""

from __future__ import annotations

import asyncio
import time

from bench.floors import postgres, sqlite, valkey
from bench.measure import Contender, Figure, Sample, Workload
from bench.places import (
    OnPostgres,
    OnSqlite,
    OnValkey,
    Place,
    bare_url,
    sqlite_path,
    store_url,
)
from bench.program import program
from bench.ticks import new_ticks
from bench.worker_process import until, worker_process
from holdfast.client import Client
from holdfast.job import LIVE, JobState

JOBS = 20_000
SLOTS = 1_000


def drain_on_postgres(place: OnPostgres) -> Workload:
    async def floor() -> Sample:
        async with bare_url(place) as url:
            return {"rate": await postgres.in_sequence(url, JOBS)}

    async def overlapped() -> Sample:
        async with bare_url(place) as url:
            return {"rate": await postgres.overlapped(url, JOBS)}

    contenders = (
        Contender("floor", floor),
        Contender("floor, overlapped", overlapped),
        Contender("holdfast", lambda: drained(place)),
    )
    return _workload(place, contenders, least=0.40)


def drain_on_sqlite(place: OnSqlite) -> Workload:
    async def floor() -> Sample:
        async with bare_url(place) as url:
            return {"rate": await sqlite.in_one_thread(sqlite_path(url), JOBS)}

    contenders = (Contender("floor", floor), Contender("holdfast", lambda: drained(place)))
    return _workload(place, contenders, least=0.08)


def drain_on_valkey(place: OnValkey) -> Workload:
    async def floor() -> Sample:
        async with bare_url(place) as url:
            return {"rate": await valkey.in_sequence(url, JOBS)}

    contenders = (Contender("floor", floor), Contender("holdfast", lambda: drained(place)))
    return _workload(place, contenders, least=0.25)


def _workload(place: Place, contenders: tuple[Contender, ...], least: float) -> Workload:
    return Workload(
        "drain",
        place.name,
        Figure.RATE,
        contenders,
        wanted=f"≥ {least:.2f} of the floor",
        met=lambda best, ratio: ratio is not None and ratio >= least,
    )


async def drained(place: Place, jobs: int = JOBS, slots: int = SLOTS) -> Sample:
    async with store_url(place) as url:
        app, noop = program(url, lambda number: None)
        async with app:
            await noop.enqueue_many((number,) for number in range(jobs))
            await place.settle(url)
            with (
                new_ticks(jobs) as (path, ticks),
                worker_process(url, path, slots) as process,
            ):
                await until(
                    lambda: ticks.count() >= jobs, process, within=120, what="all handlers ran"
                )
                handled = time.monotonic()
                await _none_is_live(app.client)
                ended = time.monotonic()
                counts = await app.client.count()
                marks = ticks.read()
    if counts != {JobState.SUCCEEDED: jobs} or sorted(n for n, _ in marks) != list(range(jobs)):
        raise RuntimeError(f"{jobs} jobs, but {len(marks)} handlers ran and the store has {counts}")
    began = min(moment for _, moment in marks)
    return {"rate": jobs / (ended - began), "tail_ms": 1000 * (ended - handled)}


async def _none_is_live(client: Client) -> None:
    """Cheaper to ask than how many have ended, and the same answer: jobs are never lost, which
    the counts prove afterwards."""
    give_up = time.monotonic() + 30
    while counts := await client.count(states=LIVE):
        if time.monotonic() > give_up:
            raise RuntimeError(f"all handlers ran, but the store still shows {counts}")
        await asyncio.sleep(0.002)
