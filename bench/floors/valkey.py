"""Valkey through its driver: one sorted set, two bare scripts, 100 jobs at a time, in turn."""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import urlsplit

from redis.asyncio import Redis

from holdfast.job import new_job_id

BATCH = 100


async def in_sequence(url: str, jobs: int) -> float:
    """Jobs per second: claim 100, finish 100; the outcomes stay."""
    parts = urlsplit(url)
    client = Redis(host=parts.hostname or "localhost", port=parts.port or 6379, protocol=2)
    try:
        await client.flushdb()
        await _fill(client, jobs)
        began = time.perf_counter()
        done = await _drain(client)
        took = time.perf_counter() - began
        await client.flushdb()
    finally:
        await client.aclose()
    if done != jobs:
        raise RuntimeError(f"the floor finished {done} jobs of {jobs}")
    return jobs / took


async def _fill(client: Redis, jobs: int) -> None:
    async with client.pipeline(transaction=False) as pipe:
        for number in range(jobs):
            job_id = new_job_id()
            pipe.set(f"floor:body:{job_id}", f'{{"number":{number}}}')
            pipe.zadd("floor:ready", {job_id: number})
        await pipe.execute()


async def _drain(client: Redis) -> int:
    claim, finish = [await client.script_load(_script(verb)) for verb in ("claim", "finish")]
    done = 0
    while claimed := await client.evalsha(claim, 0, BATCH):
        ids, _bodies = claimed
        done += await client.evalsha(finish, 0, *ids)
    return done


def _script(verb: str) -> str:
    return (Path(__file__).parent / f"valkey_{verb}.lua").read_text()
