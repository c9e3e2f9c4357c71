"""Valkey through its driver: a hash of counters, the edges of a node as one text, bare scripts."""

from __future__ import annotations

import time
from collections.abc import Sequence

from redis.asyncio import Redis

from bench.floors.body import body
from bench.floors.graphs import Graph, bites
from bench.floors.valkey import BATCH, connected, script
from bench.measure import Sample, percentiles
from holdfast.job.ids import JobId, new_job_id


async def start(url: str, graphs: Sequence[Graph]) -> Sample:
    async with connected(url) as client:
        began = time.perf_counter()
        await _fill(client, graphs)
        return {"rate": len(graphs) / (time.perf_counter() - began)}


async def drain(url: str, graphs: Sequence[Graph]) -> Sample:
    nodes = sum(len(graph.nodes) for graph in graphs)
    async with connected(url) as client:
        await _fill(client, graphs)
        claim = await client.script_load(script("claim"))
        finish = await client.script_load(script("flow_finish"))
        done, began = 0, time.perf_counter()
        while claimed := await client.evalsha(claim, 0, BATCH):
            done += await client.evalsha(finish, 0, *claimed[0])
        took = time.perf_counter() - began
    if done != nodes:
        raise RuntimeError(f"the floor finished {done} nodes of {nodes}")
    return {"rate": nodes / took}


async def hop(url: str, chain: Graph) -> Sample:
    """From before the end of a node until the node behind it is claimed."""
    async with connected(url) as client:
        await _fill(client, [chain])
        claim = await client.script_load(script("claim"))
        finish = await client.script_load(script("flow_finish"))
        waits, claimed = [], await client.evalsha(claim, 0, 1)
        while claimed:
            began = time.monotonic()
            await client.evalsha(finish, 0, *claimed[0])
            claimed = await client.evalsha(claim, 0, 1)
            waits.append(time.monotonic() - began)
    return percentiles(waits[:-1])


async def _fill(client: Redis, graphs: Sequence[Graph]) -> None:
    insert = await client.script_load(script("flow_insert"))
    for some in bites(graphs):
        words = [word for graph in some for word in _words(graph)]
        await client.evalsha(insert, 0, *words)


def _words(graph: Graph) -> list[str | int]:
    ids: dict[int, JobId] = {node: new_job_id() for node in graph.nodes}
    behind: dict[int, str] = {}
    for upstream, node in graph.edges:
        behind[upstream] = f"{behind.get(upstream, '')}{ids[node]},"
    words: list[str | int] = []
    for node, waits in graph.waits().items():
        words += (ids[node], node, body(node), graph.flow, waits, behind.get(node, ""))
    return words
