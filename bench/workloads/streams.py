"""Streams: jobs of one worker process write frames at a steady rate, followers in another process
read them all.

The delay of a frame is from before its write to its arrival at the follower. Every frame must
arrive, once and in order, or there is no figure. `server` is the processor time of the store's
server in percent of a core, `worker` that of the process that writes, `bytes` what a frame takes in
the store.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import psutil

from bench.measure import HOLDFAST, Contender, Sample, Workload, percentiles
from bench.places import Place, store_url
from bench.program import streams as program_of
from bench.scale import Scale
from bench.worker_process import worker_processes
from holdfast.handle import JobHandle

SHOW = (
    "{p50:.0f} / {p95:.0f} / {p99:.0f} ms, {server:.0f}% of a core in the server, "
    "{worker:.0f}% in the worker, {rate:,.0f} frames/s, {bytes:.0f} bytes a frame"
)


def streams(place: Place, scale: Scale) -> Sequence[Workload]:
    return [
        _streams("50 streams", place, 50, 200, scale.stream_seconds, "all"),
        _streams("200 streams", place, 200, 100, scale.stream_seconds, "all"),
        _streams("200 live streams", place, 200, 100, scale.stream_seconds, "live"),
    ]


def _streams(name: str, place: Place, jobs: int, rate: int, seconds: float, keep: str) -> Workload:
    number = round(rate * seconds)
    holdfast = Contender(HOLDFAST, lambda: streamed(place, jobs, rate, number, keep))
    return Workload(name, place.name, (holdfast,), "p95", SHOW)


async def streamed(place: Place, jobs: int, rate: int, number: int, keep: str) -> Sample:
    async with store_url(place) as url:
        program = program_of(url, lambda number: None)
        async with program.app as app:
            handles = await program.task.enqueue_many((n, number, rate, keep) for n in range(jobs))
            following = [asyncio.create_task(_followed(one, number)) for one in handles]
            with worker_processes(url, slots=jobs, calls=jobs, role="streams") as worker:
                await worker.have_marked(jobs)
                process = psutil.Process(worker.processes[0].pid)
                began, cpu, server = time.monotonic(), _cpu(process), place.server_seconds()
                delays = await asyncio.gather(*following)
                took = time.monotonic() - began
                shares = {
                    "server": 100 * (place.server_seconds() - server) / took,
                    "worker": 100 * (_cpu(process) - cpu) / took,
                }
            parts = (await app.store.streams.of([handles[0].id])).get(handles[0].id, [])
    frames = jobs * number
    size = sum(part.size for part in parts) / max(1, sum(part.number for part in parts))
    every = [delay for some in delays for delay in some]
    return {**percentiles(every), **shares, "rate": frames / took, "bytes": size}


async def _followed(handle: JobHandle[None], number: int) -> list[float]:
    """The delay of each frame in seconds."""
    delays: list[float] = []
    async for frame in handle.stream("tokens"):
        n, written = frame.data
        if n != len(delays) or frame.restarted or frame.missed:
            raise RuntimeError(f"frame {len(delays)} of {handle.id} came as {n}: {frame}")
        delays.append(time.monotonic() - written)
    if len(delays) != number:
        raise RuntimeError(f"{number} frames were written, {len(delays)} came")
    return delays


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
