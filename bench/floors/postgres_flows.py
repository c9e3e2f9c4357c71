"""Postgres through asyncpg: `waits` counted on the blocked rows, the flow's row locked first.

Without that lock two transactions that end two upstreams of one node would both count from the same
snapshot, and nobody would release the node.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench.floors.body import body
from bench.floors.graphs import Graph, bites
from bench.floors.postgres import Connection, connected, script
from bench.measure import Sample, percentiles


async def start(url: str, graphs: Sequence[Graph]) -> Sample:
    async with connected(url, "schema", "flow_schema") as connection:
        began = time.perf_counter()
        await _fill(connection, graphs)
        return {"rate": len(graphs) / (time.perf_counter() - began)}


async def drain(url: str, graphs: Sequence[Graph]) -> Sample:
    nodes = sum(len(graph.nodes) for graph in graphs)
    async with connected(url, "schema", "flow_schema") as connection:
        await _fill(connection, graphs)
        await connection.execute("analyze")
        claim = await connection.prepare(script("claim"))
        done, began = 0, time.perf_counter()
        while claimed := await claim.fetch():
            await _finish(connection, [row[0] for row in claimed])
            done += len(claimed)
        took = time.perf_counter() - began
    if done != nodes:
        raise RuntimeError(f"the floor finished {done} nodes of {nodes}")
    return {"rate": nodes / took}


async def hop(url: str, chain: Graph) -> Sample:
    """From before the end of a node until the node behind it is claimed."""
    async with connected(url, "schema", "flow_schema") as connection:
        await _fill(connection, [chain])
        await connection.execute("analyze")
        claim = await connection.prepare(script("claim"))
        waits, claimed = [], await claim.fetch()
        while claimed:
            began = time.monotonic()
            await _finish(connection, [row[0] for row in claimed])
            claimed = await claim.fetch()
            waits.append(time.monotonic() - began)
    return percentiles(waits[:-1])


async def _fill(connection: Connection, graphs: Sequence[Graph]) -> None:
    insert = await connection.prepare(script("flow_start"))
    for some in bites(graphs):
        nodes = [(n, one.flow, body(n), waits) for one in some for n, waits in one.waits().items()]
        edges = [edge for one in some for edge in one.edges]
        flows = [(one.flow, len(one.nodes)) for one in some]
        columns = [
            list(column) for rows in (flows, nodes, edges) for column in zip(*rows, strict=True)
        ]
        await insert.fetch(*columns)


async def _finish(connection: Connection, nodes: list[int]) -> None:
    async with connection.transaction():
        await connection.fetch(script("flow_lock"), nodes)
        await connection.fetch(script("flow_finish"), nodes)
