"""The program of the tests on limits: tasks that pass limits and note in the diary when they run.

    python -m tests.support.limited worker '{"queues": {"default": 4}, "lease": 2}'

The diary is the outside log: handlers write it, and the store has no part in it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import sys
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.app import App
from holdfast.context import Context
from holdfast.job.ends import HandedBack, Returned
from holdfast.job.ids import WorkerId, new_worker_id
from holdfast.job.outcome import decide
from holdfast.job.passing import bucket_name
from holdfast.job.record import Claimed
from holdfast.limits.model import Budget, Concurrency, Rate
from holdfast.store.contract.records import Want
from holdfast.store.contract.workers import WorkerInfo
from tests.support import program
from tests.support.program import SOON, noted

MOST = 3
WIDE = 1_000_000

app = App()
tenant = app.limit("tenant", Concurrency(MOST))
wide = app.limit("wide", Concurrency(WIDE))
calls = app.limit("calls", Rate(500, per=1))
purse = app.limit("purse", Budget(10_000))


@app.task(limits=[tenant.by("key")], retry=SOON, max_crashes=1_000, keep_result=False)
async def hold(ctx: Context, key: str, milliseconds: float) -> None:
    with noted(ctx, key):
        await asyncio.sleep(milliseconds / 1_000)


@app.task(limits=[tenant.by("key")], retry=SOON, max_crashes=1_000, keep_result=False)
async def hold_until(ctx: Context, key: str, sign: str) -> None:
    """Returns when a file appears."""
    with noted(ctx, key):
        while not os.path.exists(sign):  # noqa: ASYNC110, ASYNC240, PTH110 - no event
            await asyncio.sleep(0.01)


@app.task(limits=[tenant.by("key")], retry=SOON, max_crashes=1_000, queue="asleep")
async def outsleep(ctx: Context, key: str, sign: str) -> None:
    """Its first attempt lasts until a file appears and keeps the loop to itself: when its process
    wakes from a stop, the handler returns before anything can tell it that it was too late."""
    with noted(ctx, key):
        while ctx.attempt == 1 and not Path(sign).exists():  # noqa: ASYNC240 - blocks on purpose
            time.sleep(0.005)  # noqa: ASYNC251 - blocks on purpose


@app.task(limits=[wide.by("key")], retry=SOON, max_crashes=1_000, keep_result=False)
async def hold_naively(ctx: Context, key: str, milliseconds: float) -> None:
    """Its limit holds nobody up: the worker counts by itself (`naive`)."""
    with noted(ctx, key):
        await asyncio.sleep(milliseconds / 1_000)


@app.task(retry=SOON, max_crashes=1_000, keep_result=False)
async def plain(ctx: Context, milliseconds: float) -> None:
    """Passes nothing but the total of its queue."""
    with noted(ctx, "total"):
        await asyncio.sleep(milliseconds / 1_000)


@app.task(fair="key", retry=SOON, max_crashes=1_000, keep_result=False)
async def share(ctx: Context, key: str, milliseconds: float) -> None:
    """Has a share of its queue with the others of its key."""
    with noted(ctx, key):
        await asyncio.sleep(milliseconds / 1_000)


@app.task(limits=[calls], retry=SOON, max_crashes=1_000, keep_result=False)
async def call(ctx: Context) -> None:
    """Begins only so often."""
    with noted(ctx, "calls"):
        await asyncio.sleep(0.1)


@app.task(limits=[purse.by(cost="units")], retry=SOON, max_crashes=1_000, keep_result=False)
async def spend(ctx: Context, units: int, milliseconds: float) -> None:
    """Spends what it was thought to spend."""
    with noted(ctx, str(units)):
        await asyncio.sleep(milliseconds / 1_000)


async def naive(**options: Any) -> None:
    """A worker that counts, then claims, and hands back what exceeds its own count, as queues do
    that have no lock between the two."""
    async with app:
        claim, finish = app.store.jobs.claim, app.store.jobs.finish

        async def counted_before(
            worker: WorkerId,
            wants: Sequence[Want],
            tasks: Sequence[str],
            labels: Collection[str] = (),
            only: Collection[str] = (),
        ) -> list[Claimed]:
            used = {one.name: one.in_use for one in await app.store.limits.buckets("wide", 1_000)}
            kept, excess = list[Claimed](), list[Claimed]()
            for job in await claim(worker, wants, tasks, labels, only):
                bucket = bucket_name("wide", msgspec.json.decode(job.args)["key"])
                used[bucket] = used.get(bucket, 0) + 1
                (kept if used[bucket] <= MOST else excess).append(job)
            await finish([decide(job, HandedBack()) for job in excess])
            return kept

        setattr(app.store.jobs, "claim", counted_before)  # noqa: B010 - the contract has no setter
        await program.work(app, **options)


async def change() -> None:
    """Change limits all the time, in every way that there is."""
    async with app:
        limits = app.store.limits
        program.diary().note("ready")
        for n in itertools.count():
            most, key = Concurrency(n % 10), f"k{n % 5}"
            await limits.declare({"tenant": most, f"other{n % 7}": most})
            await limits.put("tenant", most)
            await limits.override("tenant", key, most if n % 2 else None)
            await limits.drain({bucket_name("tenant", key): n % 2 * 60.0})


async def claim() -> None:
    """Claim and end jobs all the time, by the verbs of the store alone."""
    async with app:
        worker = WorkerInfo(
            id=new_worker_id(),
            name="claimer",
            host="localhost",
            pid=os.getpid(),
            queues={"default": 5},
            tasks=(hold.name,),
            version="1",
        )
        await app.store.workers.register(worker, 1.0)
        program.diary().note("ready")
        while True:
            given = await app.store.jobs.claim(worker.id, [Want("default", 5)], [hold.name])
            await app.store.jobs.finish([decide(job, Returned("null")) for job in given])


async def work(**options: Any) -> None:
    await program.work(app, **options)


ROLES: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    "worker": work,
    "sleeper": work,
    "naive": naive,
    "changer": change,
    "claimer": claim,
}

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(ROLES[sys.argv[1]](**msgspec.json.decode(sys.argv[2])))
