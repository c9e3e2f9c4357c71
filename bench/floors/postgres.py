"""Postgres through asyncpg: rows moved ready → lease → outcome, 200 at a time.

The drain in sequence on one connection is *the* floor: claim, finish, claim, finish. The
overlapped one claims the next batch while the last is being finished, on two connections, as a
worker may do as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import TypeAlias

import asyncpg

from bench.floors.body import body
from bench.measure import Sample, percentiles
from bench.stopwatch import Start

BATCH = 200  # the same number stands in postgres_claim.sql
WOKEN = "floor"  # and the channel in postgres_insert_and_wake.sql

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Drain = Callable[[str, Connection], Awaitable[int]]


async def single(url: str, jobs: int) -> Sample:
    async with connected(url, "schema") as connection:
        insert = await connection.prepare(script("insert"))
        began = time.perf_counter()
        for number in range(jobs):
            await insert.fetch(number, body(number))
        return {"rate": jobs / (time.perf_counter() - began)}


async def bulk(url: str, jobs: int, start: Start) -> Sample:
    """COPY into both tables that a waiting job needs, in one transaction."""
    async with connected(url, "schema") as connection:
        watch = start()
        await _fill(connection, jobs)
        return watch.per_job(jobs)


async def drain(url: str, jobs: int, start: Start, document: str = "") -> Sample:
    return await _drained(url, jobs, start, _drain_in_sequence, document)


async def drain_overlapped(url: str, jobs: int, start: Start) -> Sample:
    """When claims and finishes each have a connection."""
    return await _drained(url, jobs, start, _drain_overlapped)


async def pickup(url: str, samples: int, gap: float, start: Start) -> Sample:
    async with connected(url, "schema") as sender, connected(url) as listener:
        woken = asyncio.Event()
        await listener.add_listener(WOKEN, lambda *_: woken.set())
        insert = await sender.prepare(script("insert_and_wake"))
        claim = await listener.prepare(script("claim"))
        await claim.fetch()  # a statement that is prepared but never run holds notifications back

        async def claim_when_woken() -> float:
            await woken.wait()
            woken.clear()
            await claim.fetch()
            return time.monotonic()

        waits, watch = [], start()
        for number in range(samples):
            began = time.monotonic()
            claimed, _ = await asyncio.gather(claim_when_woken(), insert.fetch(number, "{}"))
            waits.append(claimed - began)
            await asyncio.sleep(max(0.0, began + gap - time.monotonic()))
        return watch.per_job(samples) | percentiles(waits)


async def _fill(connection: Connection, jobs: int, document: str = "") -> None:
    bodies = [(number, body(number, document)) for number in range(jobs)]
    async with connection.transaction():
        await connection.copy_records_to_table("job", records=bodies)
        await connection.copy_records_to_table("ready", records=[(n,) for n in range(jobs)])


async def _drained(url: str, jobs: int, start: Start, drain: Drain, document: str = "") -> Sample:
    async with connected(url, "schema") as connection:
        await _fill(connection, jobs, document)
        await connection.execute("analyze")
        watch = start()
        done = await drain(url, connection)
        sample = watch.per_job(jobs)
    if done != jobs:
        raise RuntimeError(f"the floor finished {done} jobs of {jobs}")
    return sample


async def _drain_in_sequence(url: str, connection: Connection) -> int:
    claim = await connection.prepare(script("claim"))
    finish = await connection.prepare(script("finish"))
    done = 0
    while claimed := await claim.fetch():
        await finish.fetch([row[0] for row in claimed])
        done += len(claimed)
    return done


async def _drain_overlapped(url: str, connection: Connection) -> int:
    async with connected(url) as second:
        claim = await connection.prepare(script("claim"))
        finish = await second.prepare(script("finish"))
        done, claimed = 0, await claim.fetch()
        while claimed:
            ids = [row[0] for row in claimed]
            _, claimed = await asyncio.gather(finish.fetch(ids), claim.fetch())
            done += len(ids)
        return done


@asynccontextmanager
async def connected(url: str, *scripts: str) -> AsyncIterator[Connection]:
    connection: Connection = await asyncpg.connect(url)
    try:
        for name in scripts:
            await connection.execute(script(name))
        yield connection
    finally:
        await connection.close()


@cache
def script(verb: str) -> str:
    return (Path(__file__).parent / f"postgres_{verb}.sql").read_text()
