"""What operators and running attempts ask of jobs that are not being ended."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.store.contract.records import ProgressReport, Topic
from holdfast.store.sqlite.finishing import (
    NARROW,
    note_return,
    take_numbers,
    to_ready,
    waiting_rows,
)
from holdfast.store.sqlite.inserting import retake_key
from holdfast.store.sqlite.rows import to_json
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import MANY, Transaction


def resume(tx: Transaction, ids: Sequence[JobId]) -> list[JobId]:
    rows = waiting_rows(tx, JobState.SUSPENDED, set(ids))
    if rows:
        to_ready(tx, JobState.SUSPENDED, rows)
    return [JobId(row[0]) for row in rows]


def request_cancel(tx: Transaction, ids: Sequence[JobId]) -> list[JobId]:
    marked = tx.rows(script("jobs/request_cancel"), (to_json(ids), tx.now))
    for worker in {worker for _, worker, is_there in marked if is_there}:
        tx.wake(Topic.CANCEL, worker)
    return [JobId(job_id) for job_id, *_ in marked]


def requeue(tx: Transaction, ids: Sequence[JobId]) -> list[JobId]:
    """One at a time, because of two jobs with one key only the first may return."""
    sql = steps("jobs/requeue")
    returned: list[JobId] = []
    for row in tx.rows(sql["find"], (to_json(dict.fromkeys(ids)),)):
        job_id, queue, key, states = row[0], row[1], row[NARROW], row[NARROW + 1]
        if key is not None and not retake_key(tx, key, job_id, states):
            continue
        tx.run(sql["drop outcome"], (job_id,))
        tx.run(steps("jobs/finish")["drop deadline"], (job_id,))
        narrow = (*row[:3], take_numbers(tx, 1), *row[4:NARROW])
        tx.run(steps("jobs/finish")["ready"], (*narrow, tx.now))
        tx.run(steps("schedules/record")["restart"], (job_id,))
        tx.wake(Topic.READY, queue)
        returned.append(JobId(job_id))
    return returned


def reprioritise(tx: Transaction, ids: Sequence[JobId], priority: int) -> list[JobId]:
    """Its place within the new priority is by arrival, as if it had always been there."""
    wanted = (to_json(ids), priority)
    changed = [row for sql in steps("jobs/reprioritise").values() for row in tx.rows(sql, wanted)]
    note_return(tx)
    return [JobId(job_id) for (job_id,) in changed]


def move(tx: Transaction, ids: Sequence[JobId], queue: str) -> list[JobId]:
    wanted = (to_json(ids), queue)
    moved = [row for sql in steps("jobs/move").values() for row in tx.rows(sql, wanted)]
    note_return(tx)
    tx.wake(Topic.READY, queue, MANY)
    return [JobId(job_id) for (job_id,) in moved]


def report_progress(tx: Transaction, reports: Sequence[ProgressReport]) -> list[bool]:
    sql = steps("jobs/report_progress")
    fences: dict[str, int] = dict(
        tx.rows(sql["fences"], (to_json({report.id for report in reports}),))
    )
    kept = [fences.get(report.id) == report.fence for report in reports]
    tx.each(
        sql["keep"],
        [
            (
                report.id,
                report.progress.fraction,
                report.progress.message,
                report.progress.checkpoint,
                tx.now,
            )
            for report, ours in zip(reports, kept, strict=True)
            if ours
        ],
    )
    return kept
