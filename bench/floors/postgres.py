"""Postgres through asyncpg: rows moved ready → lease → outcome, 200 at a time.

In sequence on one connection is *the* floor: claim, finish, claim, finish. The
overlapped one claims the next batch while the last is being finished, on two
connections, as a worker may do as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import asyncpg

BATCH = 200  # the same number stands in postgres_claim.sql

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Drain = Callable[[str, Connection], Awaitable[int]]


async def in_sequence(url: str, jobs: int) -> float:
    """Jobs per second with one connection."""
    return await _timed(url, jobs, _drain_in_sequence)


async def overlapped(url: str, jobs: int) -> float:
    """Jobs per second when claims and finishes each have a connection."""
    return await _timed(url, jobs, _drain_overlapped)


async def _timed(url: str, jobs: int, drain: Drain) -> float:
    connection: Connection = await asyncpg.connect(url)
    try:
        await connection.execute(_script("schema"))
        await connection.fetch(_script("fill"), jobs)
        await connection.execute("analyze")
        began = time.perf_counter()
        done = await drain(url, connection)
        took = time.perf_counter() - began
    finally:
        await connection.close()
    if done != jobs:
        raise RuntimeError(f"the floor finished {done} jobs of {jobs}")
    return jobs / took


async def _drain_in_sequence(url: str, connection: Connection) -> int:
    claim = await connection.prepare(_script("claim"))
    finish = await connection.prepare(_script("finish"))
    done = 0
    while claimed := await claim.fetch():
        await finish.fetch([row[0] for row in claimed])
        done += len(claimed)
    return done


async def _drain_overlapped(url: str, connection: Connection) -> int:
    second: Connection = await asyncpg.connect(url)
    try:
        claim = await connection.prepare(_script("claim"))
        finish = await second.prepare(_script("finish"))
        done, claimed = 0, await claim.fetch()
        while claimed:
            ids = [row[0] for row in claimed]
            _, claimed = await asyncio.gather(finish.fetch(ids), claim.fetch())
            done += len(ids)
        return done
    finally:
        await second.close()


def _script(verb: str) -> str:
    return (Path(__file__).parent / f"postgres_{verb}.sql").read_text()
