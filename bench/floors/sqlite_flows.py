"""SQLite through the standard library: nodes counted down one by one, in the one transaction that
ends a batch."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence

from bench.floors.body import body
from bench.floors.graphs import Graph, bites
from bench.floors.sqlite import BATCH, connected, script
from bench.measure import Sample, percentiles
from holdfast.job.ids import new_job_id


async def start(url: str, graphs: Sequence[Graph]) -> Sample:
    with connected(url, "flow_schema") as connection:
        began = time.perf_counter()
        _fill(connection, graphs)
        return {"rate": len(graphs) / (time.perf_counter() - began)}


async def drain(url: str, graphs: Sequence[Graph]) -> Sample:
    nodes = sum(len(graph.nodes) for graph in graphs)
    with connected(url, "flow_schema") as connection:
        _fill(connection, graphs)
        done, began = 0, time.perf_counter()
        while claimed := _claim(connection, BATCH):
            _finish(connection, claimed)
            done += len(claimed)
        took = time.perf_counter() - began
    if done != nodes:
        raise RuntimeError(f"the floor finished {done} nodes of {nodes}")
    return {"rate": nodes / took}


async def hop(url: str, chain: Graph) -> Sample:
    """From before the end of a node until the node behind it is claimed."""
    with connected(url, "flow_schema") as connection:
        _fill(connection, [chain])
        waits, claimed = [], _claim(connection, 1)
        while claimed:
            began = time.monotonic()
            _finish(connection, claimed)
            claimed = _claim(connection, 1)
            waits.append(time.monotonic() - began)
    return percentiles(waits[:-1])


def _fill(connection: sqlite3.Connection, graphs: Sequence[Graph]) -> None:
    for some in bites(graphs):
        flows, nodes, edges = [], [], []
        for graph in some:
            flow, ids = new_job_id(), {node: new_job_id() for node in graph.nodes}
            flows.append((flow, len(ids)))
            nodes += [(ids[n], flow, waits, body(n)) for n, waits in graph.waits().items()]
            edges += [(ids[upstream], ids[node]) for upstream, node in graph.edges]
        connection.execute("begin immediate")
        connection.executemany(script("flow_insert"), flows)
        connection.executemany(script("flow_insert_node"), nodes)
        connection.executemany(script("flow_insert_edge"), edges)
        connection.execute("commit")


def _claim(connection: sqlite3.Connection, limit: int) -> list[str]:
    connection.execute("begin immediate")
    claimed = connection.execute(script("flow_claim"), (time.time(), limit)).fetchall()
    connection.execute("commit")
    return [row[0] for row in claimed]


def _finish(connection: sqlite3.Connection, nodes: Sequence[str]) -> None:
    now, one_by_one = time.time(), [(node,) for node in nodes]
    edges = script("flow_edges")
    connection.execute("begin immediate")
    connection.executemany(script("flow_finish"), [(now, node) for node in nodes])
    connection.executemany(script("flow_ended"), one_by_one)
    waiting = [row for node in one_by_one for row in connection.execute(edges, node).fetchall()]
    connection.executemany(script("flow_count"), waiting)
    connection.execute("commit")
