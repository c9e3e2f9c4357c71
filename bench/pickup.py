"""Pickup: an idle worker, one job at a time; from before the enqueue to the handler's start."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from statistics import quantiles

from bench.measure import Contender, Figure, Sample, Workload
from bench.places import Place, store_url
from bench.program import QUEUE, program
from bench.ticks import new_ticks
from bench.worker_process import until, worker_process
from holdfast.task import Task

SAMPLES = 200
GAP = 0.02
SETTLING = 1.0
SLOTS = 50


def pickup(place: Place, *, across: bool) -> Workload:
    """`across`: the worker is another process than the one that enqueues."""
    where = "another process" if across else "same process"
    measure = across_processes if across else in_one_process
    return Workload(
        f"pickup, {where}",
        place.name,
        Figure.P50,
        (Contender("holdfast", lambda: measure(place)),),
        wanted="p50 < 5 ms, p99 < 25 ms",
        met=lambda best, _: best["p50"] < 5 and best["p99"] < 25,
    )


async def in_one_process(place: Place) -> Sample:
    began: dict[int, float] = {}
    async with store_url(place) as url:
        app, noop = program(url, lambda number: began.setdefault(number, time.monotonic()))
        async with app.worker(queues={QUEUE: SLOTS}):
            await asyncio.sleep(SETTLING)
            sent = await _send(noop)
            await asyncio.sleep(SETTLING)
    return _latency(sent, began.items())


async def across_processes(place: Place) -> Sample:
    async with store_url(place) as url:
        app, noop = program(url, lambda number: None)
        async with app:
            with (
                new_ticks(SAMPLES + 1) as (path, ticks),
                worker_process(url, path, SLOTS) as process,
            ):
                await noop.enqueue(-1)
                await until(lambda: ticks.count() > 0, process, within=30, what="a handler ran")
                await asyncio.sleep(SETTLING)
                sent = await _send(noop)
                await until(
                    lambda: ticks.count() > SAMPLES, process, within=30, what="all handlers ran"
                )
                return _latency(sent, ticks.read())


async def _send(noop: Task[[int], None]) -> dict[int, float]:
    sent: dict[int, float] = {}
    for number in range(SAMPLES):
        sent[number] = time.monotonic()
        await noop.enqueue(number)
        await asyncio.sleep(max(0.0, sent[number] + GAP - time.monotonic()))
    return sent


def _latency(sent: Mapping[int, float], began: Iterable[tuple[int, float]]) -> Sample:
    waits = [1000 * (moment - sent[number]) for number, moment in began if number in sent]
    if len(waits) != SAMPLES:
        raise RuntimeError(f"{len(waits)} of {SAMPLES} jobs were picked up")
    cuts = quantiles(waits, n=100, method="inclusive")
    return {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98], "worst": max(waits)}
