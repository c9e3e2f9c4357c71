"""Steps on SQLite through the standard library: a row for each, if the fence of its job holds."""

from __future__ import annotations

import time

from bench.floors.body import RESULT
from bench.floors.sqlite import connected, script
from bench.measure import Sample
from holdfast.job.ids import new_job_id


async def record(url: str, jobs: int, steps: int, batch: int) -> Sample:
    with connected(url, "steps_schema") as connection:
        ids = [new_job_id() for _ in range(jobs)]
        connection.executemany("insert into lease values (?, 1)", [(job,) for job in ids])
        statement = script("steps_record")
        kept, began = 0, time.perf_counter()
        for step in range(steps):
            for first in range(0, jobs, batch):
                some = ids[first : first + batch]
                connection.execute("begin immediate")
                rows = [(f"step {step}", RESULT, 1, job, 1) for job in some]
                kept += connection.executemany(statement, rows).rowcount
                connection.execute("commit")
        took = time.perf_counter() - began
    if kept != jobs * steps:
        raise RuntimeError(f"the floor kept {kept} steps of {jobs * steps}")
    return {"rate": kept / took}
