"""Flows wait, one worker process runs all their nodes, beside as many jobs of no flow.

Double diamonds: 10 nodes and 14 edges each. Then groups and pipelines as other queues have them:
these are measured whole, from before the first is built until the last handler begins, by a
worker that waits for them and has run one before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from bench import floors
from bench.draining import SLOTS, Load, drained, numbered
from bench.measure import FLOOR, HOLDFAST, Contender, Sample, Workload
from bench.places import Place, store_url
from bench.program import node
from bench.scale import Scale
from bench.shapes import (
    DIAMOND_NODES,
    GROUP,
    PIPELINE,
    Shape,
    diamond,
    group,
    pipeline,
    several,
    started,
    started_by_callers,
)
from bench.targets import PLAIN_DRAIN
from bench.worker_process import worker_processes

WARMING = 1_000
SETTLING = 1.5


def flow_drain(place: Place, scale: Scale) -> Sequence[Workload]:
    contenders = (
        Contender("floor, no-op", lambda: floors.drain(place, scale.jobs)),
        Contender(FLOOR, lambda: floors.drain_flows(place, scale.jobs)),
        Contender(PLAIN_DRAIN, lambda: drained(place, numbered(scale.jobs))),
        Contender(HOLDFAST, lambda: drained(place, diamonds(scale.jobs))),
    )
    return [
        Workload("flow drain", place.name, contenders),
        _whole("flow groups", place, group, scale.groups, GROUP),
        _whole("flow pipelines", place, pipeline, scale.pipelines, PIPELINE),
    ]


def diamonds(nodes: int) -> Load:
    return Load(
        "noop",
        nodes,
        nodes,
        lambda program: started(several(program, diamond, nodes, each=DIAMOND_NODES)),
    )


def _whole(name: str, place: Place, shape: Shape, flows: int, each: int) -> Workload:
    contender = Contender(HOLDFAST, lambda: run_whole(place, shape, flows, each))
    return Workload(name, place.name, (contender,))


async def run_whole(place: Place, shape: Shape, flows: int, each: int) -> Sample:
    nodes, before = flows * each, WARMING + each
    async with store_url(place) as url:
        program = node(url, lambda number: None)
        async with program.app:
            with worker_processes(url, slots=SLOTS, calls=before + nodes, role="node") as worker:
                await program.task.enqueue_many((-1,) for _ in range(WARMING))
                await shape(program, -each).start()
                await worker.have_marked(before)
                await asyncio.sleep(SETTLING)
                began = time.monotonic()
                await started_by_callers(program, shape, nodes, each=each)
                await worker.have_marked(before + nodes)
                last = max(moment for _, moment in worker.marks())
                return {"rate": nodes / (last - began)}
