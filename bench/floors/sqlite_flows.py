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

READY, BLOCKED = 0, 3


async def start(url: str, graphs: Sequence[Graph]) -> Sample:
    with connected(url, "schema", "flow_schema") as connection:
        began = time.perf_counter()
        _fill(connection, graphs)
        return {"rate": len(graphs) / (time.perf_counter() - began)}


async def drain(url: str, graphs: Sequence[Graph]) -> Sample:
    nodes = sum(len(graph.nodes) for graph in graphs)
    with connected(url, "schema", "flow_schema") as connection:
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
    with connected(url, "schema", "flow_schema") as connection:
        _fill(connection, [chain])
        waits, claimed = [], _claim(connection, 1)
        while claimed:
            began = time.monotonic()
            _finish(connection, claimed)
            claimed = _claim(connection, 1)
            waits.append(time.monotonic() - began)
    return percentiles(waits[:-1])


def _fill(connection: sqlite3.Connection, graphs: Sequence[Graph]) -> None:
    """Ids of jobs are given: the rows of edges name them."""
    for some in bites(graphs):
        rows = [(n, one.flow, waits) for one in some for n, waits in one.waits().items()]
        jobs = [(n, BLOCKED if waits else READY, body(n)) for n, _, waits in rows]
        connection.execute("begin immediate")
        connection.executemany(script("flow_insert"), [(one.flow, len(one.nodes)) for one in some])
        connection.executemany(script("flow_insert_job"), jobs)
        connection.executemany(script("flow_insert_node"), rows)
        edges = [edge for one in some for edge in one.edges]
        connection.executemany(script("flow_insert_edge"), edges)
        connection.execute("commit")


def _claim(connection: sqlite3.Connection, limit: int) -> list[int]:
    connection.execute("begin immediate")
    claimed = connection.execute(script("claim"), (time.time(), limit)).fetchall()
    connection.execute("commit")
    return [row[0] for row in claimed]


def _finish(connection: sqlite3.Connection, nodes: Sequence[int]) -> None:
    now, one_by_one = time.time(), [(node,) for node in nodes]
    connection.execute("begin immediate")
    connection.executemany(script("finish"), [(now, node) for node in nodes])
    connection.executemany(script("flow_ended"), one_by_one)
    edges, count = script("flow_edges"), script("flow_count")
    for node in one_by_one:
        for waiting in connection.execute(edges, node).fetchall():
            if connection.execute(count, waiting).fetchone()[0] == 0:
                connection.execute(script("flow_release"), waiting)
    connection.execute("commit")
