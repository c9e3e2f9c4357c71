"""SQLite through the standard library: the rows of the floor on Postgres, with `waits` counted on
those that are blocked."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from functools import cache

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
        rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in _steps("flow_start")}
        for graph in some:
            flow, ids = new_job_id(), {node: new_job_id() for node in graph.nodes}
            rows["flow"].append((flow, len(ids)))
            for n, waits in graph.waits().items():
                rows["job"].append((ids[n], body(n)))
                rows["node"].append((ids[n], flow))
                if waits:
                    rows["blocked"].append((ids[n], waits))
                else:
                    rows["ready"].append((ids[n],))
            rows["edge"] += [(ids[upstream], ids[node]) for upstream, node in graph.edges]
        connection.execute("begin immediate")
        for name, sql in _steps("flow_start").items():
            connection.executemany(sql, rows[name])
        connection.execute("commit")


def _claim(connection: sqlite3.Connection, limit: int) -> list[str]:
    sql = _steps("flow_claim")
    connection.execute("begin immediate")
    claimed = [row[0] for row in connection.execute(sql["leave"], (limit,)).fetchall()]
    now = time.time()
    connection.executemany(sql["lease"], [(node, now) for node in claimed])
    connection.execute(sql["read"], (json.dumps(claimed),)).fetchall()
    connection.execute("commit")
    return claimed


def _finish(connection: sqlite3.Connection, nodes: Sequence[str]) -> None:
    sql, ids = _steps("flow_finish"), json.dumps(nodes)
    connection.execute("begin immediate")
    connection.execute(sql["end"], (time.time(), ids))
    connection.execute(sql["leave"], (ids,))
    waiting = Counter(row[0] for row in connection.execute(sql["take"], (ids,)).fetchall())
    connection.executemany(sql["count"], [(edges, node) for node, edges in waiting.items()])
    free = connection.execute(sql["free"], (json.dumps(list(waiting)),)).fetchall()
    connection.executemany(sql["line up"], free)
    connection.execute(sql["flows"], (ids,))
    connection.execute("commit")


@cache
def _steps(verb: str) -> dict[str, str]:
    _, *parts = re.split(r"^-- name: (.+)$", script(verb), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))
