"""`python -m bench.lone_ender URL JOBS`: a process that ends jobs one at a time.

It claims them, says so, waits for a line, ends one after the other, and prints when each end began
and how long it took.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from bench.program import QUEUE, on_fast_loop
from holdfast.app import App
from holdfast.job.ends import Returned
from holdfast.job.ids import new_worker_id
from holdfast.job.outcome import decide
from holdfast.store.contract.records import Want
from holdfast.store.contract.workers import WorkerInfo

A_DAY = 86_400.0


async def end_one_at_a_time(url: str, each: int) -> None:
    app = App(url)
    async with app:
        worker = new_worker_id()
        info = WorkerInfo(worker, "bench", "localhost", 0, {QUEUE: each}, ("noop",), "0")
        await app.store.workers.register(info, A_DAY)
        claimed = await app.store.jobs.claim(worker, [Want(QUEUE, each)], ["noop"])
        moves = [decide(job, Returned("null")) for job in claimed]
        print("claimed", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        ends: list[tuple[float, float]] = []
        for move in moves:
            began = time.monotonic()
            [verdict] = await app.store.jobs.finish([move])
            ends.append((began, time.monotonic() - began))
            if not verdict.accepted:
                raise RuntimeError("a finish was refused")
    print(json.dumps(ends))


if __name__ == "__main__":
    on_fast_loop(end_one_at_a_time(sys.argv[1], int(sys.argv[2])))
