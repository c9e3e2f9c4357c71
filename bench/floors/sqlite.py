"""SQLite through the standard library, in one thread: one table, rows marked, 100 at a time.

WAL and synchronous=NORMAL, as Holdfast has it.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

from bench.floors.body import body
from bench.measure import Sample, percentiles
from bench.places import sqlite_path
from bench.stopwatch import Start

BATCH = 100
LOOK_EVERY = 0.001
GOLDEN = 0.618  # of a golden ratio: its multiples spread evenly


async def single(url: str, jobs: int) -> Sample:
    with connected(url, "schema") as connection:
        insert = script("insert")
        began = time.perf_counter()
        for number in range(jobs):
            connection.execute(insert, (body(number),))
        return {"rate": jobs / (time.perf_counter() - began)}


async def bulk(url: str, jobs: int, start: Start) -> Sample:
    with connected(url, "schema") as connection:
        watch = start()
        _fill(connection, jobs)
        return watch.per_job(jobs)


async def drain(url: str, jobs: int, start: Start, document: str = "") -> Sample:
    """The finished rows stay."""
    with connected(url, "schema") as connection:
        _fill(connection, jobs, document)
        watch = start()
        done = _drain(connection)
        sample = watch.per_job(jobs)
    if done != jobs:
        raise RuntimeError(f"the floor finished {done} jobs of {jobs}")
    return sample


async def pickup(url: str, samples: int, gap: float, start: Start) -> Sample:
    """Nothing wakes a reader of a file, so the claimer looks every millisecond whether another
    connection has changed it. It does so in a thread: timers of a loop know whole milliseconds,
    and one for the next may end at once."""
    waits = []
    with connected(url, "schema") as sender, connected(url) as claimer:
        insert = script("insert")

        def send(number: int) -> float:
            """At all moments between two looks alike: the same one each time would tell only of
            itself."""
            time.sleep(gap + LOOK_EVERY * (number * GOLDEN % 1))
            began = time.monotonic()
            sender.execute(insert, ("{}",))
            return began

        watch = start()
        for number in range(samples):
            claimed, began = await asyncio.gather(
                asyncio.to_thread(_claim_when_changed, claimer), asyncio.to_thread(send, number)
            )
            waits.append(claimed - began)
        return watch.per_job(samples) | percentiles(waits)


def _claim_when_changed(connection: sqlite3.Connection) -> float:
    look = "pragma data_version"
    [before] = connection.execute(look).fetchone()
    while connection.execute(look).fetchone()[0] == before:
        time.sleep(LOOK_EVERY)
    connection.execute(script("claim"), (time.time(), 1)).fetchall()
    return time.monotonic()


def _connection(url: str) -> sqlite3.Connection:
    return sqlite3.connect(sqlite_path(url), isolation_level=None, check_same_thread=False)


@contextmanager
def connected(url: str, *scripts: str) -> Iterator[sqlite3.Connection]:
    with closing(_connection(url)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = normal")
        for name in scripts:
            connection.executescript(script(name))
        yield connection


def _fill(connection: sqlite3.Connection, jobs: int, document: str = "") -> None:
    rows = [(body(number, document),) for number in range(jobs)]
    connection.execute("begin")
    connection.executemany(script("insert"), rows)
    connection.execute("commit")


def _drain(connection: sqlite3.Connection) -> int:
    claim, finish = script("claim"), script("finish")
    done = 0
    while True:
        connection.execute("begin immediate")
        claimed = connection.execute(claim, (time.time(), BATCH)).fetchall()
        connection.execute("commit")
        if not claimed:
            return done
        now = time.time()
        connection.execute("begin immediate")
        connection.executemany(finish, [(now, row[0]) for row in claimed])
        connection.execute("commit")
        done += len(claimed)


@cache
def script(verb: str) -> str:
    return (Path(__file__).parent / f"sqlite_{verb}.sql").read_text()
