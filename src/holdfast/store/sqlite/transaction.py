"""What a verb sees of the database: a transaction.

`BEGIN IMMEDIATE` takes the only write lock at once, so whatever a verb reads stays true
until it commits, and nothing but the beginning can find the database busy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol

from holdfast.job.what import What
from holdfast.store.contract.wakeups import Topic
from holdfast.store.sqlite.rows import to_json
from holdfast.store.sqlite.scripts import (
    ROWS_ALIKE,
    ROWS_TOGETHER,
    alike,
    alone,
    script,
    steps,
    together,
)

Row = tuple[Any, ...]
Values = Sequence[object] | Mapping[str, object]
Key = tuple[Topic, str]
Counted = tuple[str, str, str, str, What]  # queue, task, source, target and what

MINUTE = 60_000_000
NOWHERE = ""
"""The source of a job that is new, and the target of one that is removed."""
MANY = 1_000
"""Jobs that a wakeup tells of when nobody has counted them."""


class Cursor(Protocol):
    """What a transaction needs of a cursor: sqlite3's own, or one that a caller lent."""

    @property
    def rowcount(self) -> int: ...
    def execute(self, sql: str, parameters: Any = ..., /) -> Any: ...
    def executemany(self, sql: str, parameters: Any, /) -> Any: ...
    def fetchall(self) -> list[Any]: ...


class Bump(NamedTuple):
    """What a counter has come to, and by how much it grew."""

    n: int
    by: int


class Transaction:
    """Statements, the store's time, which jobs it moved, whom to wake after the commit, and what
    to remember only if there is one (`committed`)."""

    __slots__ = ("_cursor", "_moved", "committed", "now", "wakes")

    def __init__(self, cursor: Cursor, now: int) -> None:
        self._cursor = cursor
        self.now = now
        self.wakes: dict[Key, int] = {}
        self._moved: dict[Counted, int] = {}
        self.committed: Callable[[], None] | None = None

    def rows(self, sql: str, values: Values = ()) -> list[Row]:
        self._cursor.execute(sql, values)
        return self._cursor.fetchall()

    def row(self, sql: str, values: Values = ()) -> Row | None:
        rows = self.rows(sql, values)
        return rows[0] if rows else None

    def run(self, sql: str, values: Values = ()) -> None:
        self._cursor.execute(sql, values)

    def changed(self, sql: str, values: Values = ()) -> int:
        """How many rows the statement wrote."""
        self._cursor.execute(sql, values)
        return self._cursor.rowcount

    def run_for(self, ids: Sequence[str], sql: str) -> None:
        """Run a statement that takes a list of ids and nothing else."""
        if len(ids) == 1:
            self._cursor.execute(alone(sql), ids)
        else:
            self._cursor.execute(sql, (to_json(ids),))

    def each(self, sql: str, many: Iterable[Values]) -> None:
        self._cursor.executemany(sql, many)

    def fill(self, sql: str, rows: Sequence[Row]) -> None:
        """Insert these rows by a statement that ends in `values (?, …)`. Twenty at a time take 30 %
        less than one by one, and hand the interpreter to other threads once instead of twenty
        times."""
        first = 0
        while len(rows) - first >= ROWS_TOGETHER:
            some = chain.from_iterable(rows[first : first + ROWS_TOGETHER])
            self._cursor.execute(together(sql), tuple(some))
            first += ROWS_TOGETHER
        self._cursor.executemany(sql, rows[first:] if first else rows)

    def fill_alike(self, sql: str, rows: Sequence[Row], shared: Row) -> None:
        """Insert these rows by a statement that lists them in `(values (?, …))` and then takes the
        values that all of them share. Those are bound once for up to a hundred rows, which take
        half of what they take by `fill`."""
        first = 0
        for size in (ROWS_ALIKE, ROWS_TOGETHER, 1):
            while len(rows) - first >= size:
                some = chain.from_iterable(rows[first : first + size])
                self._cursor.execute(alike(sql, size), (*some, *shared))
                first += size

    def wake(self, topic: Topic, name: str = "", jobs: int = 1) -> None:
        """`jobs`: how many more may be claimed now, where the topic is READY."""
        self.wakes[topic, name] = self.wakes.get((topic, name), 0) + jobs

    def count(
        self, queue: str, task: str, source: str, target: str, what: What, jobs: int = 1
    ) -> None:
        """Note for the books that jobs go from one place to another."""
        key = (queue, task, source, target, what)
        self._moved[key] = self._moved.get(key, 0) + jobs

    def close(self) -> dict[Key, Bump]:
        """Write down what was counted and whom to wake. To be called last, before the commit."""
        if self._moved:
            minute = self.now // MINUTE
            # As texts: sqlite3 takes twice as long to bind a word of an enumeration.
            rows = [(minute, *map(str, moved), jobs) for moved, jobs in self._moved.items()]
            self.each(script("parts/move"), rows)
        return self._bump_counters() if self.wakes else {}

    def _bump_counters(self) -> dict[Key, Bump]:
        """Leave word of all wakes for other processes: each has a counter, which grows by as many
        as there are jobs."""
        sql = steps("parts/counter")["bump"]
        bumps: dict[Key, Bump] = {}
        for (topic, name), jobs in self.wakes.items():
            [(n,)] = self.rows(sql, (topic.value, name, jobs))
            bumps[topic, name] = Bump(n, jobs)
        return bumps
