"""Jobs wait, worker processes run them all.

From the first handler's call until the store shows every job ended; the workers' start is not
counted. Each job must have run as often as it should and have succeeded, or there is no figure.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from bench.measure import Sample
from bench.places import Place, store_url
from bench.program import QUEUE, ROLES, Program
from bench.stopwatch import Stopwatch
from bench.worker_process import Workers, worker_processes
from holdfast.client.client import Client
from holdfast.job.state import LIVE, JobState

SLOTS = 1_000
OFTEN = 0.002

Counts = Mapping[JobState, int]


@dataclass(frozen=True, slots=True)
class Load:
    """What waits: jobs of the program with this role. `calls` is how often handlers are called
    in all, which is more than there are jobs where some fail at first. `unmarked` jobs run beside
    them and leave no mark: a map is one."""

    role: str
    jobs: int
    calls: int
    fill: Callable[[Program], Awaitable[object]]
    unmarked: int = 0
    look_every: float = OFTEN
    """Seconds between two looks whether all have ended, once every handler was called."""


def numbered(jobs: int, role: str = "noop") -> Load:
    """Jobs whose only argument is their number."""
    return Load(
        role, jobs, jobs, lambda program: program.task.enqueue_many((n,) for n in range(jobs))
    )


async def drained(
    place: Place, load: Load, *, workers: int = 1, slots: int = SLOTS, together: bool = False
) -> Sample:
    """`together`: the queue is paused until every worker is there, because one that comes a
    moment later would find half of the work done. Then the sample also tells the processor time,
    without what a worker takes to start."""
    async with store_url(place) as url:
        return await drained_at(url, place, load, workers=workers, slots=slots, together=together)


async def drained_at(
    url: str,
    place: Place,
    load: Load,
    *,
    workers: int = 1,
    slots: int = SLOTS,
    together: bool = False,
) -> Sample:
    """In a store that may have a past."""
    program = ROLES[load.role](url, lambda number: None)
    async with program.app as app:
        before = await app.client.count()
        await load.fill(program)
        if together:
            await app.client.queues.pause(QUEUE)
        await place.settle(url)
        with worker_processes(
            url, slots=slots, calls=load.calls, role=load.role, count=workers
        ) as running:
            if not together:
                sample = await _timed(app.client, running, load)
            else:
                await _all_there(app.client, workers)
                watch = Stopwatch(place, running.pids)
                await app.client.queues.resume(QUEUE)
                sample = await _timed(app.client, running, load)
                sample = watch.per_job(load.jobs) | sample
        _verify_counts(load, before, await app.client.count())
        return sample


async def _all_there(client: Client, workers: int) -> None:
    give_up = time.monotonic() + 30
    while len(await client.workers.all()) < workers:
        if time.monotonic() > give_up:
            raise RuntimeError(f"{workers} workers: not all have registered within 30 s")
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.3)


async def _timed(client: Client, running: Workers, load: Load) -> Sample:
    await running.have_marked(load.calls)
    handled = time.monotonic()
    await _none_is_live(client, load.look_every)
    ended = time.monotonic()
    marks = running.marks()
    _verify_calls(load, [number for number, _ in marks])
    began = min(moment for _, moment in marks)
    return {"rate": load.jobs / (ended - began), "tail_ms": 1000 * (ended - handled)}


async def _none_is_live(client: Client, look_every: float) -> None:
    """Cheaper to ask than how many have ended, and the same answer: jobs are never lost, which
    the counts prove afterwards."""
    give_up = time.monotonic() + 30
    while counts := await client.count(states=LIVE):
        if time.monotonic() > give_up:
            raise RuntimeError(f"all handlers ran, but the store still shows {counts}")
        await asyncio.sleep(look_every)


def _verify_calls(load: Load, numbers: list[int]) -> None:
    if set(numbers) != set(range(load.jobs)) or len(numbers) != load.calls:
        came = f"{len(numbers)} calls of {len(set(numbers))}"
        raise RuntimeError(f"expected {load.calls} calls of {load.jobs} jobs, got {came}")


def _verify_counts(load: Load, before: Counts, after: Counts) -> None:
    succeeded = before.get(JobState.SUCCEEDED, 0) + load.jobs + load.unmarked
    if after != {JobState.SUCCEEDED: succeeded}:
        raise RuntimeError(f"expected {succeeded} jobs that succeeded, the store has {after}")
