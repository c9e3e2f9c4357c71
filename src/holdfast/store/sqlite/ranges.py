"""All jobs of a file in ranges of ids: each is read as a range of every table's key.

SQLite sorts what it groups. Jobs of a range are sorted in memory; all jobs of a large file are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Transaction

JOBS_AT_ONCE = 10_000
"""How many jobs a range of a deep examination has."""
BEFORE_ALL, AFTER_ALL = "", "\U0010ffff"


class Range(NamedTuple):
    """Jobs with an id above `low`, and not above `high`."""

    low: str
    high: str


def last_after(low: str, jobs: int, tx: Transaction) -> str | None:
    """The last of so many jobs after one, or None if there are fewer."""
    rows = tx.rows(steps("health/check")["last of a range"], {"low": low, "jobs": jobs - 1})
    return rows[0][0] if rows else None


def every_range(tx: Transaction) -> Iterator[Range]:
    low: str | None = BEFORE_ALL
    while low is not None:
        high = last_after(low, JOBS_AT_ONCE, tx)
        yield Range(low, high or AFTER_ALL)
        low = high
