"""The live places of a job, and how its narrow row goes from one to another.

A job is where its narrow row is. The view `holdfast_place` lists all places for statements
that read; `TABLES` names the live ones for statements that write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from holdfast.job.ids import JobId
from holdfast.job.state import UNTIMED, JobState
from holdfast.job.what import What
from holdfast.store.contract.wakeups import Topic
from holdfast.store.sqlite.limited import LIMITED, enter_ready, look_at_lines_of
from holdfast.store.sqlite.rows import STATES, to_json
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import Row, Transaction

TABLES: Mapping[JobState, str] = {
    JobState.READY: "holdfast_ready",
    JobState.RUNNING: "holdfast_lease",
    JobState.SCHEDULED: "holdfast_scheduled",
    JobState.SUSPENDED: "holdfast_suspended",
    **{state: f"holdfast_{state}" for state in sorted(UNTIMED)},
}


class Narrow(NamedTuple):
    """The columns that every place has, in the order of the statements that read and write them."""

    job_id: str
    queue: str
    priority: int
    seq: int
    task: str
    attempts: int
    crashes: int
    fence: int
    ties: int


InPlace = tuple[JobState, Narrow]


@cache
def at(verb: str, place: JobState) -> str:
    """The statement of a verb that is the same for every place."""
    return script(verb).replace("{{place}}", TABLES[place])


def in_places(rows: Iterable[Sequence[Any]], order: Iterable[str] = ()) -> list[InPlace]:
    """Rows that begin with a state, as jobs in their places; in the `order` of ids, if given."""
    found = [(STATES[state], Narrow._make(columns)) for state, *columns in rows]
    numbers = {job_id: number for number, job_id in enumerate(order)}
    return sorted(found, key=lambda job: numbers[job[1].job_id]) if numbers else found


def leave(tx: Transaction, place: JobState, ids: Sequence[str]) -> None:
    tx.run_for(ids, at("parts/leave", place))


def leave_all(tx: Transaction, jobs: Iterable[InPlace]) -> None:
    ids: dict[JobState, list[str]] = {}
    limited: list[str] = []
    for place, row in jobs:
        ids.setdefault(place, []).append(row.job_id)
        if place is JobState.READY and row.ties & LIMITED:
            limited.append(row.job_id)
    if limited:
        look_at_lines_of(tx, limited)
    for place, left in ids.items():
        leave(tx, place, left)


def line_up(tx: Transaction, rows: Sequence[Narrow]) -> None:
    """Put jobs that have left their places at the ends of their lines, in this order."""
    if not rows:
        return
    first = take_numbers(tx, len(rows))
    enter_ready(tx, [_in_line(row, seq, tx.now) for seq, row in enumerate(rows, first)])
    for queue, jobs in Counter(row.queue for row in rows).items():
        tx.wake(Topic.READY, queue, jobs)


def _in_line(row: Narrow, seq: int, now: int) -> Row:
    """Taken apart and put together by hand: `_replace` costs four times as much."""
    job_id, queue, priority, _, task, attempts, crashes, fence, ties = row
    return job_id, queue, priority, seq, task, attempts, crashes, fence, ties, now


def wait_untimed(tx: Transaction, place: JobState, rows: Sequence[Row]) -> None:
    """Put jobs in a place that no clock moves them out of."""
    tx.fill(at("parts/wait_untimed", place), rows)


def make_ready(tx: Transaction, jobs: Sequence[InPlace], what: What) -> None:
    leave_all(tx, jobs)
    line_up(tx, [row for _, row in jobs])
    count(tx, jobs, JobState.READY, what)


def count(tx: Transaction, jobs: Sequence[InPlace], to: JobState, what: What) -> None:
    """Note for the books that these jobs leave their places for another."""
    for place, row in jobs:
        tx.count(row.queue, row.task, place, to, what)


def take_numbers(tx: Transaction, count: int) -> int:
    """The first of `count` new arrival numbers."""
    [(last,)] = tx.rows(steps("parts/counter")["arrivals"], (count,))
    return int(last) - count + 1


def note_return(tx: Transaction) -> None:
    """Tell all claimers that jobs stand before the marks up to which they have read a line."""
    tx.run(steps("parts/counter")["return"])


def locate(tx: Transaction, ids: Iterable[str]) -> dict[JobId, tuple[JobState, int]]:
    """The state and the fence of those jobs that exist."""
    rows = tx.rows(steps("parts/locate")["many"], (to_json(dict.fromkeys(ids)),))
    return {JobId(job_id): (JobState(state), fence) for job_id, state, fence in rows}


def place_of(tx: Transaction, job_id: str) -> JobState | None:
    """The state of one job, None if it does not exist; half the price of `locate`."""
    for (state,) in tx.rows(steps("parts/locate")["one"], (job_id,)):
        return JobState(state)
    return None
