"""What reconcilers ask: the jobs that time has caught up with, a bounded page at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.job.ids import JobId
from holdfast.job.record import Live
from holdfast.job.state import JobState
from holdfast.store.contract.records import Promoted
from holdfast.store.sqlite.finishing import leave, line_up, to_ready
from holdfast.store.sqlite.reading import live, to_live
from holdfast.store.sqlite.rows import SECOND, seconds_until, to_json
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import Row, State, Transaction


class LapsedLeases:
    """Asked for every second by every process, because nothing announces a death. While nobody
    runs anything, the state that the database is in answers. Used only in the reader's thread."""

    def __init__(self) -> None:
        self._looked_at: State | None = None
        self._none_at: State | None = None

    def look(self, state: State) -> list[Live] | None:
        """No leases, if that is known without a transaction."""
        self._looked_at = state
        return [] if state == self._none_at else None

    def find(self, tx: Transaction, limit: int, after: str | None) -> list[Live]:
        sql = steps("jobs/lapsed_leases")
        if tx.rows(sql["any"]) == [(0,)]:
            # Looked at before the transaction: never newer than what it saw.
            self._none_at = self._looked_at
            return []
        return to_live(tx.rows(sql["expired"], (tx.now, after or "", limit)))


def overdue_attempts(tx: Transaction, limit: int, after: str | None, slack: float) -> list[Live]:
    values = (tx.now, after or "", limit, round(slack * SECOND))
    return to_live(tx.rows(script("jobs/overdue_attempts"), values))


def past_deadline(tx: Transaction, limit: int, after: str | None) -> list[Live]:
    """An end drops its own deadline row; what is dropped here was left by hand or by a bug."""
    sql = steps("jobs/past_deadline")
    tx.run(sql["drop ended"], (tx.now, limit))
    ids = [row[0] for row in tx.rows(sql["find"], (tx.now, after or "", limit))]
    return sorted(live(tx, ids), key=lambda job: job.id)


def next_deadline_in(tx: Transaction) -> float | None:
    row = tx.row(script("jobs/next_deadline_in"))
    return None if row is None else max(0.0, seconds_until(row[0], tx.now))


def promote_due(tx: Transaction, limit: int) -> Promoted:
    sql = steps("jobs/promote_due")
    due = [
        (row[-1], source, row)
        for source in (JobState.SCHEDULED, JobState.SUSPENDED)
        for row in tx.rows(sql[source], (tx.now, limit))
    ]
    due = sorted(due, key=lambda entry: (entry[0], entry[2][0]))[:limit]
    queues = tuple(sorted({row[1] for _, _, row in due}))
    for source in (JobState.SCHEDULED, JobState.SUSPENDED):
        leave(tx, source, [row for _, its_source, row in due if its_source is source])
    line_up(tx, [row for _, _, row in due])
    [(next_due,)] = tx.rows(sql["next"])
    wait = None if next_due is None else max(0.0, seconds_until(next_due, tx.now))
    return Promoted(len(due), queues, wait)


def due(tx: Transaction, limit: int, after: str | None) -> list[JobId]:
    return [JobId(row[0]) for row in tx.rows(script("jobs/due"), (tx.now, after or "", limit))]


def promote(tx: Transaction, ids: Iterable[JobId]) -> int:
    sql, promoted = steps("jobs/promote"), 0
    for source in (JobState.SCHEDULED, JobState.SUSPENDED):
        rows = tx.rows(sql[source], (tx.now, to_json(set(ids))))
        if rows:
            to_ready(tx, source, rows)
            promoted += len(rows)
    return promoted


def prune(tx: Transaction, limit: int) -> int:
    victims = tx.rows(steps("jobs/prune")["expired"], (tx.now, limit))
    _remove(tx, victims)
    return len(victims)


def delete(tx: Transaction, ids: Iterable[JobId]) -> list[JobId]:
    victims = tx.rows(steps("jobs/prune")["named"], (to_json(set(ids)),))
    _remove(tx, victims)
    return [JobId(job_id) for job_id, _ in victims]


def _remove(tx: Transaction, victims: Sequence[Row]) -> None:
    """All that belongs to these ended jobs."""
    sql = steps("jobs/prune")
    ids = [(job_id,) for job_id, _ in victims]
    for table in ("outcome", "error", "progress", "deadline", "job"):
        tx.each(sql[table], ids)
    tx.each(sql["key"], [(key, job_id) for job_id, key in victims if key is not None])
