"""`python -m bench.operations`: whether an operation on many jobs does what it promises.

200,000 ready jobs of seven queues are moved to one queue, and back again by an undo. The preview
must be exact, the canary must wait, the worker process that runs the operation is killed at half,
and another must go on. The books count every move: each job must have been moved once, and once
more by the undo. Told is also how long an onlooker saw nothing happen while a worker was at it, and
how long it took until one was.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import AbstractContextManager

from rich.console import Console

from bench.places import STORES, Place, places, store_url
from bench.program import Program, noop, on_fast_loop
from bench.timeline import must_equal
from bench.worker_process import Workers, worker_processes
from holdfast.app import App
from holdfast.client.client import Client
from holdfast.job.what import What
from holdfast.store.contract.operations import Operation, OperationState
from holdfast.store.contract.store import Store

FROM = tuple(f"from-{number}" for number in range(7))
TO = "to"
CANARY = 1_000
LOOK_SECONDS = 0.05


async def run(place: Place, jobs: int) -> dict[str, float]:
    async with store_url(place) as url:
        program = noop(url, lambda number: None)
        async with program.app:
            await enqueue(program, jobs)
            return await moved_and_back(program.app, url, jobs)


async def enqueue(program: Program, jobs: int) -> None:
    for number, queue in enumerate(FROM):
        await program.task.using(queue=queue).enqueue_many(
            (n,) for n in range(number, jobs, len(FROM))
        )


async def moved_and_back(app: App, url: str, jobs: int) -> dict[str, float]:
    client = app.client
    before = await by_queue(client)
    preview = await client.operations.preview("move", queues=FROM)
    must_equal("the preview", (preview.matched, preview.by_queue), (jobs, before))
    operation = await client.operations.begin("move", TO, queues=FROM, canary=CANARY)
    watch = Watch(client, operation)
    began = time.perf_counter()
    with one_worker(url) as first:
        waiting = await watch.until(lambda one: one.state is OperationState.WAITING)
        must_equal("jobs of the canary", waiting.progress.changed, CANARY)
        await client.operations.go_on(operation.id)
        picked_up = await watch.until_picked_up()
        await watch.until(lambda one: one.progress.changed >= jobs // 2)
        first.processes[0].send_signal(signal.SIGKILL)
    unseen = watch.longest
    with one_worker(url):
        taken_over = await watch.until_picked_up()
        done = await watch.until(lambda one: one.state is OperationState.DONE)
        took = time.perf_counter() - began
        must_equal("jobs changed", (done.progress.changed, done.progress.failed), (jobs, 0))
        must_equal("jobs by queue", await by_queue(client), {TO: jobs})
        must_equal("moves", await moves(app.store), jobs)
        undo = Watch(client, await client.operations.undo(operation.id))
        await undo.until_picked_up()
        await undo.until(lambda one: one.state is OperationState.DONE)
    must_equal("jobs by queue after the undo", await by_queue(client), before)
    must_equal("moves after the undo", await moves(app.store), 2 * jobs)
    return {
        "seconds": took,
        "seconds_unseen": max(unseen, watch.longest, undo.longest),
        "seconds_until_picked_up": picked_up,
        "seconds_until_taken_over": taken_over,
    }


def one_worker(url: str) -> AbstractContextManager[Workers]:
    """It serves none of the queues: it only runs the operation."""
    return worker_processes(url, slots=1, calls=1)


class Watch:
    """An onlooker of one operation: what it shows, and how long it showed the same."""

    def __init__(self, client: Client, operation: Operation) -> None:
        self._client = client
        self.seen = operation
        self.begin()

    def begin(self) -> None:
        self._since, self.longest = time.perf_counter(), 0.0

    async def until_picked_up(self) -> float:
        """How long it takes until somebody works on it; what is not seen counts from then on."""
        self.begin()
        changed = self.seen.progress.changed
        await self.until(lambda one: one.progress.changed > changed)
        took = self.longest
        self.begin()
        return took

    async def until(self, reached: Callable[[Operation], bool]) -> Operation:
        give_up = time.perf_counter() + 600
        while not reached(self.seen):
            if time.perf_counter() > give_up:
                raise RuntimeError(f"not reached within 10 minutes: {self.seen}")
            await asyncio.sleep(LOOK_SECONDS)
            found = await self._client.operations.get(self.seen.id)
            now = time.perf_counter()
            self.longest = max(self.longest, now - self._since)
            if found.revision != self.seen.revision:
                self._since = now
            self.seen = found
        return self.seen


async def by_queue(client: Client) -> dict[str, int]:
    found = {queue.name: sum(queue.counts.values()) for queue in await client.queues.all()}
    return {name: jobs for name, jobs in found.items() if jobs}


async def moves(store: Store) -> int:
    """A job that is moved leaves one queue and comes into another: the books count both."""
    moved = [one.jobs for one in await store.telemetry.totals() if one.what is What.MOVED]
    return sum(moved) // 2


def main() -> None:
    parser = ArgumentParser(prog="python -m bench.operations", description=__doc__)
    parser.add_argument("--store", choices=STORES, action="append")
    parser.add_argument("--jobs", type=int, default=200_000)
    given = parser.parse_args()
    console = Console(highlight=False)

    async def work() -> None:
        for place in chosen:
            found = await run(place, given.jobs)
            console.print(f"{place.name}: each job was moved once, and back. {json.dumps(found)}")

    with places(given.store or STORES) as chosen:
        on_fast_loop(work())


if __name__ == "__main__":
    main()
