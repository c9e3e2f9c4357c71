"""Steps on Postgres through asyncpg: a row for each, if the fence of its job holds."""

from __future__ import annotations

import time
from collections.abc import Sequence

import asyncpg

from bench.floors.body import RESULT
from bench.floors.postgres import connected, script
from bench.measure import Sample
from holdfast.job.ids import JobId, new_job_id


async def record(url: str, jobs: int, steps: int, batch: int) -> Sample:
    async with connected(url, "steps_schema") as connection:
        ids = [new_job_id() for _ in range(jobs)]
        rows = [(job, 1) for job in ids]
        await connection.copy_records_to_table("lease", records=rows)
        await connection.execute("analyze")
        write = _alone if batch == 1 else _together
        kept, took = await write(connection, ids, steps, batch)
    if kept != jobs * steps:
        raise RuntimeError(f"the floor kept {kept} steps of {jobs * steps}")
    return {"rate": kept / took}


async def _together(
    connection: asyncpg.Connection[asyncpg.Record], ids: Sequence[JobId], steps: int, batch: int
) -> tuple[int, float]:
    statement = await connection.prepare(script("steps_record"))
    kept, began = 0, time.perf_counter()
    for step in range(steps):
        for first in range(0, len(ids), batch):
            some = ids[first : first + batch]
            size = len(some)
            names = [f"step {step}"] * size
            kept += await statement.fetchval(some, [1] * size, names, [RESULT] * size)
    return kept, time.perf_counter() - began


async def _alone(
    connection: asyncpg.Connection[asyncpg.Record], ids: Sequence[JobId], steps: int, batch: int
) -> tuple[int, float]:
    """Plain values: lists of one take a tenth longer."""
    statement = await connection.prepare(script("steps_record_one"))
    kept, began = 0, time.perf_counter()
    for step in range(steps):
        for job in ids:
            kept += await statement.fetchval(job, 1, f"step {step}", RESULT)
    return kept, time.perf_counter() - began
