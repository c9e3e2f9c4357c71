"""SQLite through the standard library, in one thread: one table, rows marked, 100 at a time."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

BATCH = 100


async def in_one_thread(path: Path, jobs: int) -> float:
    """Jobs per second with WAL and synchronous=NORMAL; the finished rows stay."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = normal")
        connection.executescript(_script("schema"))
        _fill(connection, jobs)
        began = time.perf_counter()
        done = _drain(connection)
        took = time.perf_counter() - began
    if done != jobs:
        raise RuntimeError(f"the floor finished {done} jobs of {jobs}")
    return jobs / took


def _fill(connection: sqlite3.Connection, jobs: int) -> None:
    rows = [(f'{{"number":{number}}}',) for number in range(jobs)]
    connection.execute("begin")
    connection.executemany("insert into job (args) values (?)", rows)
    connection.execute("commit")


def _drain(connection: sqlite3.Connection) -> int:
    claim, finish = _script("claim"), _script("finish")
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


def _script(verb: str) -> str:
    return (Path(__file__).parent / f"sqlite_{verb}.sql").read_text()
