"""One flow of 10,000 nodes: built and started, explained and drawn while it waits, run; how much
the memory of its worker grows from the third such flow to the fifth.

Then a chain of 5,000 nodes behind one that is cancelled: from the cancel until the flow has ended,
and the longest time that an enqueue of another program took meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import psutil

from bench.draining import SLOTS
from bench.measure import HOLDFAST, Contender, Sample, Workload
from bench.places import Place, store_url
from bench.program import Program, node, noop
from bench.scale import Scale
from bench.shapes import chain, fan
from bench.worker_process import worker_processes
from holdfast.flow.drawing import draw

MIB = 2**20
FLOWS, WARM = 5, 3
BEAT = 0.005


def large_flow(place: Place, scale: Scale) -> Sequence[Workload]:
    whole = Contender(HOLDFAST, lambda: started_and_run(place, scale.large))
    skipped = Contender(HOLDFAST, lambda: skipped_along(place, scale.skips))
    seen = (
        "start {start:.2f} s, explain {explain:.2f} s, graph {graph:.2f} s, run {run:.2f} s; "
        "{grown_mib:+.1f} MiB"
    )
    stall = "{seconds:.2f} s, longest enqueue beside it {stall_ms:.0f} ms"
    return [
        Workload("large flow", place.name, (whole,), "start", seen, once=True),
        Workload("skipped chain", place.name, (skipped,), "seconds", stall, once=True),
    ]


async def started_and_run(place: Place, nodes: int) -> Sample:
    async with store_url(place) as url:
        program = node(url, lambda number: None)
        async with program.app:
            seen = await _seen(program, nodes)
            calls = (FLOWS + 1) * nodes
            with worker_processes(url, slots=SLOTS, calls=calls, role="node") as worker:
                await worker.have_marked(1)
                began = time.monotonic()
                await worker.have_marked(nodes)
                seen["run"] = time.monotonic() - began
                process, memory = psutil.Process(worker.processes[0].pid), 0
                for n in range(1, FLOWS + 1):
                    run = await fan(program, 0, nodes).start()
                    await worker.have_marked((n + 1) * nodes)
                    await run.wait(60)
                    if n == WARM:
                        memory = process.memory_info().rss
                seen["grown_mib"] = (process.memory_info().rss - memory) / MIB
    return seen


async def _seen(program: Program, nodes: int) -> Sample:
    """What a person waits for."""
    began = time.monotonic()
    run = await fan(program, 0, nodes).start()
    started = time.monotonic()
    await run.explain()
    explained = time.monotonic()
    flows = program.app.client.flows
    draw(await flows.graph(run.id), await flows.nodes(run.id))
    drawn = time.monotonic()
    return {"start": started - began, "explain": explained - started, "graph": drawn - explained}


async def skipped_along(place: Place, nodes: int) -> Sample:
    async with store_url(place) as url:
        program, other = node(url, lambda number: None), noop(url, lambda number: None)
        async with program.app as app, other.app:
            run = await chain(program, 0, nodes + 1, beside=True).start()
            [first] = [one.job_id for one in await run.nodes() if one.name == "node"]
            await place.settle(url)
            with worker_processes(url, slots=SLOTS, calls=100_000) as worker:
                await other.task.enqueue(0)
                await worker.have_marked(1)
                took: list[float] = []
                beating, began = asyncio.create_task(_enqueue_on(other, took)), time.monotonic()
                await app.client.cancel(first)
                await run.wait(120)
                seconds = time.monotonic() - began
                await asyncio.sleep(BEAT)
                beating.cancel()
    return {"seconds": seconds, "stall_ms": 1000 * max(took)}


async def _enqueue_on(program: Program, took: list[float]) -> None:
    while True:
        began = time.monotonic()
        await program.task.enqueue(0)
        took.append(time.monotonic() - began)
        await asyncio.sleep(BEAT)
