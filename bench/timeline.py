"""`python -m bench.timeline`: whether the timeline of a million jobs equals the books.

Jobs are enqueued while two worker processes run them. One of the two is killed at half, whatever it
was doing: then others fold and roll up. At the end the points of every step are added up. They must
say what the totals say, the totals must fit each other, and a recount must find nothing to correct.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from rich.console import Console

from bench.places import STORES, Place, places, store_url
from bench.program import Program, noop, on_fast_loop
from bench.worker_process import Workers, worker_processes
from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.store.contract.measures import Grain, Step
from holdfast.store.contract.store import Store

BATCH = 2_000
SLOTS = 200
RETURNED = (What.LOST, What.HANDED_BACK, What.PUT_OFF)
"""What ends an attempt here but for a success."""


class BooksDisagree(Exception):
    """Two figures that must be equal are not."""


async def run(place: Place, jobs: int) -> dict[str, Any]:
    async with store_url(place) as url:
        program = noop(url, lambda number: None)
        async with program.app:
            began = time.perf_counter()
            with worker_processes(url, slots=SLOTS, calls=2 * jobs, count=2) as workers:
                async with asyncio.TaskGroup() as group:
                    group.create_task(enqueue(program, jobs))
                    group.create_task(kill_one(workers, jobs // 2))
                await all_have_ended(program, jobs)
            seconds = time.perf_counter() - began
            totals = await compared(program.app.store, jobs)
            return {"seconds": seconds, "totals": totals}


async def enqueue(program: Program, jobs: int) -> None:
    for first in range(0, jobs, BATCH):
        await program.task.enqueue_many((n,) for n in range(first, min(first + BATCH, jobs)))


async def kill_one(workers: Workers, after: int) -> None:
    await workers.have_marked(after, within=3600)
    workers.processes[0].send_signal(signal.SIGKILL)


async def all_have_ended(program: Program, jobs: int) -> None:
    while (await program.app.client.count()).get(JobState.SUCCEEDED, 0) < jobs:  # noqa: ASYNC110 - a poll is what an operator does
        await asyncio.sleep(0.5)


async def compared(store: Store, jobs: int) -> dict[str, int]:
    """The totals by what moved jobs, if all figures agree."""
    books = store.telemetry
    totals: Counter[What] = Counter()
    for total in await books.totals():
        totals[total.what] += total.jobs
    must_equal("jobs enqueued", totals[What.ENQUEUED], jobs)
    must_equal("jobs succeeded", totals[What.SUCCEEDED], jobs)
    returned = sum(totals[what] for what in RETURNED)
    must_equal("jobs claimed and given back", totals[What.CLAIMED], jobs + returned)
    must_equal("a recount", await books.recount(), [])
    for step in Step:
        must_equal(f"the points of {step.name}", await summed(store, step), totals)
    return {what.value: number for what, number in sorted(totals.items())}


async def summed(store: Store, step: Step) -> Mapping[What, int]:
    since = await store.now() - timedelta(days=2)
    counts: Counter[What] = Counter()
    for point in await store.telemetry.series(step, since, since + timedelta(days=3), Grain.ALL):
        counts.update(point.counts)
    return counts


def must_equal(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise BooksDisagree(f"{what}: {found}, where {expected} was expected")


def main() -> None:
    parser = ArgumentParser(prog="python -m bench.timeline", description=__doc__)
    parser.add_argument("--store", choices=STORES, action="append")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    given = parser.parse_args()
    console = Console(highlight=False)

    async def work() -> None:
        for place in chosen:
            found = await run(place, given.jobs)
            console.print(f"{place.name}: the books agree. {json.dumps(found)}")

    with places(given.store or STORES) as chosen:
        on_fast_loop(work())


if __name__ == "__main__":
    main()
