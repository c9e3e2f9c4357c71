"""Steps on Valkey through its driver: a hash for each job, if its fence holds."""

from __future__ import annotations

import time

from bench.floors.body import RESULT
from bench.floors.valkey import connected, script
from bench.measure import Sample
from holdfast.job.ids import new_job_id


async def record(url: str, jobs: int, steps: int, batch: int) -> Sample:
    async with connected(url) as client:
        ids = [new_job_id() for _ in range(jobs)]
        await client.mset({f"lease:{job}": 1 for job in ids})
        write = await client.script_load(script("steps_record"))
        kept, began = 0, time.perf_counter()
        for step in range(steps):
            for first in range(0, jobs, batch):
                some = ids[first : first + batch]
                kept += await client.evalsha(write, 0, 1, f"step {step}", RESULT, *some)
        took = time.perf_counter() - began
    if kept != jobs * steps:
        raise RuntimeError(f"the floor kept {kept} steps of {jobs * steps}")
    return {"rate": kept / took}
