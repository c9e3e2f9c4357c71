"""`python -m bench.peers.scripts.run MODULE WORKLOAD JOBS`: one measurement, printed as JSON.

JOBS is how many are drained; the other workloads have their own numbers. With `work` for a
workload it is a worker process instead.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from importlib.util import find_spec
from statistics import quantiles
from typing import Any

from bench.peers.scripts.flow_peer import FlowPeer
from bench.peers.scripts.peer import Peer, peer_in
from bench.peers.scripts.step_peer import StepPeer
from bench.peers.scripts.workers import until_finished, workers_of

SINGLES, WARMING, BULK = 2_000, 20, 20_000
SAMPLES, GAP, SETTLING = 200, 0.02, 1.5
GROUPS, GROUP, PIPELINES, PIPELINE = 50, 101, 500, 10
TEN_STEPS, ONE_STEP, IN_SEQUENCE = 300, 1_500, 1_500
OFTEN, SELDOM = 0.003, 0.01

Sample = dict[str, float]
Start = Callable[[Sequence[int]], Awaitable[None]]


async def measured(peer: Peer, workload: str, jobs: int) -> Sample:  # noqa: C901 - one arm each
    await peer.prepare()
    await peer.open()
    try:
        match workload:
            case "single":
                return await one_by_one(peer)
            case "bulk":
                return await all_at_once(peer)
            case "drain" | "one limit" | "hundred limits":
                return await drained(peer, jobs, workers=1)
            case "two workers":
                return await drained(peer, jobs, workers=2)
            case "pickup":
                return await picked_up(peer)
            case "flow groups" if isinstance(peer, FlowPeer):
                return await whole(peer, peer.start_group, GROUPS, GROUP)
            case "flow pipelines" if isinstance(peer, FlowPeer):
                return await whole(peer, peer.start_pipeline, PIPELINES, PIPELINE)
            case "ten steps" if isinstance(peer, StepPeer):
                return await with_steps(peer, TEN_STEPS, 10)
            case "one step" if isinstance(peer, StepPeer):
                return await with_steps(peer, ONE_STEP, 1)
            case "steps in sequence" if isinstance(peer, StepPeer):
                return await with_steps(peer, 1, IN_SEQUENCE)
            case _:
                raise ValueError(f"no peer is measured by the workload {workload!r}")
    finally:
        await peer.close()


async def one_by_one(peer: Peer) -> Sample:
    for number in range(WARMING):
        await peer.enqueue(number)
    began = time.perf_counter()
    for number in range(SINGLES):
        await peer.enqueue(number)
    return {"rate": SINGLES / (time.perf_counter() - began)}


async def all_at_once(peer: Peer) -> Sample:
    await peer.enqueue(-1)
    began = time.perf_counter()
    await peer.enqueue_many(range(BULK))
    return {"rate": BULK / (time.perf_counter() - began)}


async def drained(peer: Peer, jobs: int, *, workers: int) -> Sample:
    """From the first handler's call until the store shows every job finished."""
    await peer.enqueue_many(range(jobs))
    await peer.settle()
    with workers_of(peer, workers) as started:
        await started.have_run(jobs)
        handled = time.monotonic()
        await until_finished(lambda: peer.has_finished(jobs), OFTEN)
        ended = time.monotonic()
        began = min(started.marks.read().values())
    return {"rate": jobs / (ended - began), "tail_ms": 1000 * (ended - handled)}


async def with_steps(peer: StepPeer, jobs: int, steps: int) -> Sample:
    """Steps a second, from the first handler's call until the store shows every job finished."""
    await peer.enqueue_steps(range(jobs), steps)
    await peer.settle()
    with workers_of(peer) as started:
        await started.have_run(jobs)
        await until_finished(lambda: peer.has_finished(jobs), SELDOM if jobs == 1 else OFTEN)
        ended = time.monotonic()
        began = min(started.marks.read().values())
    return {"rate": jobs * steps / (ended - began)}


async def picked_up(peer: Peer) -> Sample:
    """From before the enqueue until the handler's start, in a worker that has nothing to do."""
    with workers_of(peer) as worker:
        await peer.enqueue(-1)
        await worker.have_run(1)
        await asyncio.sleep(SETTLING)
        sent = await _sent(peer)
        await worker.have_run(SAMPLES + 1)
        return _latency(sent, worker.marks.read())


async def whole(peer: Peer, start: Start, flows: int, each: int) -> Sample:
    """From before the first is started until the last handler begins, in a worker that waits and
    has run one before."""
    before = WARMING + each
    with workers_of(peer) as worker:
        await peer.enqueue_many(range(-WARMING, 0))
        await start(range(-before, -WARMING))
        await worker.have_run(before)
        await asyncio.sleep(SETTLING)
        began = time.monotonic()
        for first in range(0, flows * each, each):
            await start(range(first, first + each))
        await worker.have_run(before + flows * each)
        last = max(worker.marks.read().values())
    return {"rate": flows * each / (last - began)}


async def _sent(peer: Peer) -> dict[int, float]:
    sent: dict[int, float] = {}
    for number in range(SAMPLES):
        sent[number] = time.monotonic()
        await peer.enqueue(number)
        await asyncio.sleep(max(0.0, sent[number] + GAP - time.monotonic()))
    return sent


def _latency(sent: Mapping[int, float], began: Mapping[int, float]) -> Sample:
    waits = [1000 * (began[number] - moment) for number, moment in sent.items()]
    cuts = quantiles(waits, n=100, method="inclusive")
    return {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98]}


def on_fast_loop(main: Coroutine[Any, Any, Any]) -> Any:
    """uvloop for every asyncio peer that lives with it, as Holdfast has it."""
    if find_spec("uvloop") is None:
        return asyncio.run(main)
    import uvloop

    return uvloop.run(main)


def main() -> None:
    module, workload, jobs = sys.argv[1:]
    peer = peer_in(module)
    if workload == "work":
        on_fast_loop(peer.work())
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to stop"))  # workers stop too
        print(json.dumps(on_fast_loop(measured(peer, workload, int(jobs)))))


if __name__ == "__main__":
    main()
