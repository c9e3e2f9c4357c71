"""Valkey through its driver: one sorted set, bare scripts, 100 jobs at a time, in turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio import Redis

from bench.floors.body import body
from bench.measure import Sample, percentiles
from bench.stopwatch import Start
from holdfast.job.ids import new_job_id

BATCH = 100
AT_ONCE = 1_000


async def single(url: str, jobs: int) -> Sample:
    async with connected(url) as client:
        insert = await client.script_load(script("insert"))
        began = time.perf_counter()
        for number in range(jobs):
            await client.evalsha(insert, 0, new_job_id(), number, body(number))
        return {"rate": jobs / (time.perf_counter() - began)}


async def bulk(url: str, jobs: int, start: Start) -> Sample:
    """The same script, a thousand jobs in each call."""
    async with connected(url) as client:
        watch = start()
        await _fill(client, jobs)
        return watch.per_job(jobs)


async def drain(url: str, jobs: int, start: Start, document: str = "") -> Sample:
    """The outcomes stay."""
    async with connected(url) as client:
        await _fill(client, jobs, document)
        watch = start()
        done = await _drain(client)
        sample = watch.per_job(jobs)
    if done != jobs:
        raise RuntimeError(f"the floor finished {done} jobs of {jobs}")
    return sample


async def pickup(url: str, samples: int, gap: float, start: Start) -> Sample:
    """The claimer is blocked on the line itself, and then reads the body."""
    waits = []
    async with connected(url) as sender, connected(url) as claimer:
        insert = await sender.script_load(script("insert"))
        watch = start()
        for number in range(samples):
            claiming = asyncio.ensure_future(_claim_one(claimer))
            await asyncio.sleep(gap)
            began = time.monotonic()
            sending = asyncio.ensure_future(sender.evalsha(insert, 0, new_job_id(), number, "{}"))
            await claiming
            waits.append(time.monotonic() - began)
            await sending
        return watch.per_job(samples) | percentiles(waits)


async def _claim_one(client: Redis) -> None:
    """Wait until there is one."""
    popped: Any = await client.bzpopmin("floor:ready", 10)
    _, job_id, _ = popped
    await client.get(f"floor:body:{job_id.decode()}")


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Redis]:
    parts = urlsplit(url)
    client = Redis(host=parts.hostname or "localhost", port=parts.port or 6379, protocol=2)
    try:
        yield client
    finally:
        await client.aclose()


async def _fill(client: Redis, jobs: int, document: str = "") -> None:
    insert = await client.script_load(script("insert"))
    for start in range(0, jobs, AT_ONCE):
        words: list[str | int] = []
        for number in range(start, min(jobs, start + AT_ONCE)):
            words += (new_job_id(), number, body(number, document))
        await client.evalsha(insert, 0, *words)


async def _drain(client: Redis) -> int:
    claim, finish = [await client.script_load(script(verb)) for verb in ("claim", "finish")]
    done = 0
    while claimed := await client.evalsha(claim, 0, BATCH):
        ids, _bodies = claimed
        done += await client.evalsha(finish, 0, *ids)
    return done


@cache
def script(verb: str) -> str:
    return (Path(__file__).parent / f"valkey_{verb}.lua").read_text()
