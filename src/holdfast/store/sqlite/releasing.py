"""How blocked nodes leave their place: released when their gates are met, or skipped when a gate
cannot be met any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.store.contract.wakeups import Topic
from holdfast.store.sqlite.places import Narrow, leave, make_ready, take_numbers
from holdfast.store.sqlite.rows import after, to_json
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Row, Transaction


class Lost(NamedTuple):
    """A node that is skipped, and the name of the upstream that decided it."""

    is_bad: bool
    because: str


class Taker(Protocol):
    """Who may be given a released node before it stands in line."""

    def take(self, tx: Transaction, job_id: str) -> bool: ...


def release(tx: Transaction, ids: Iterable[str], taker: Taker | None = None) -> None:
    """Let blocked nodes go on: to the `taker`, if one takes what is released alone; to ready, or by
    their delay to scheduled."""
    free = sorted(ids)
    if not free or (taker is not None and len(free) == 1 and taker.take(tx, free[0])):
        return
    values = {"ids": to_json(free), "first": take_numbers(tx, len(free)), "now": tx.now}
    lined_up = tx.rows(steps("flows/settle")["line up"], values)
    for (queue, task), jobs in Counter(row[1:] for row in lined_up).items():
        tx.count(queue, task, JobState.BLOCKED, JobState.READY, What.RELEASED, jobs)
        tx.wake(Topic.READY, queue, jobs)
    leave(tx, JobState.BLOCKED, [row[0] for row in lined_up])
    if len(lined_up) < len(free):
        _release_limited(tx, free)
        _release_later(tx, free)


def _release_limited(tx: Transaction, ids: Sequence[str]) -> None:
    rows = tx.rows(steps("parts/limited")["blocked"], (to_json(ids),))
    jobs = [(JobState.BLOCKED, Narrow._make(row)) for row in rows]
    if jobs:
        make_ready(tx, jobs, What.RELEASED)


def _release_later(tx: Transaction, ids: Sequence[str]) -> None:
    """Those of these nodes that are still blocked have a delay, or are gone."""
    later: list[Row] = []
    for *columns, delay, _ in tx.rows(steps("flows/settle")["waiting"], (to_json(ids),)):
        row = Narrow._make(columns)
        later.append((*row, "released", after(tx.now, delay)))
        tx.count(row.queue, row.task, JobState.BLOCKED, JobState.SCHEDULED, What.RELEASED)
    if later:
        leave(tx, JobState.BLOCKED, [row[0] for row in later])
        tx.each(steps("parts/enter")[JobState.SCHEDULED], later)
        tx.wake(Topic.DUE)


def skip(tx: Transaction, lost: Mapping[str, Lost]) -> None:
    """End blocked nodes without an attempt. They are kept as long as their flow."""
    if not lost:
        return
    sql = steps("flows/settle")
    rows: list[Row] = []
    for *columns, _, deadline_at in tx.rows(sql["waiting"], (to_json(lost),)):
        row = Narrow._make(columns)
        facts = (deadline_at, None, None, None, JobState.SKIPPED.value, tx.now, None)
        rows.append((*row, *facts, lost[row.job_id].because, None, None))
        tx.count(row.queue, row.task, JobState.BLOCKED, JobState.SKIPPED, What.SKIPPED)
    leave(tx, JobState.BLOCKED, [row[0] for row in rows])
    tx.each(steps("jobs/finish")["end"], rows)
    tx.run(steps("jobs/finish")["drop deadlines"], (to_json(lost),))
    if harmless := [job_id for job_id, one in lost.items() if not one.is_bad]:
        tx.run(sql["keep gates"], (to_json(harmless),))
    tx.each(sql["mark bad"], [(job_id,) for job_id, one in lost.items() if one.is_bad])
