"""What operators do to jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from holdfast.job.ids import JobId
from holdfast.job.state import WAITING, JobState
from holdfast.job.what import What
from holdfast.store.contract.records import Topic
from holdfast.store.sqlite.audit import SqliteAudit
from holdfast.store.sqlite.keys import retake_key
from holdfast.store.sqlite.places import (
    TABLES,
    Narrow,
    at,
    count,
    in_places,
    leave_all,
    line_up,
    make_ready,
    note_return,
)
from holdfast.store.sqlite.rows import after, to_json, to_micros
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.sweeping import remove
from holdfast.store.sqlite.transaction import MANY, NOWHERE, Transaction
from holdfast.store.sqlite.writer import Verbs

WAITING_PLACES = tuple(place for place in TABLES if place in WAITING)


class SqliteOperating(Verbs):
    @property
    def audit(self) -> SqliteAudit:
        return SqliteAudit(self._writer)

    async def resume(self, ids: Sequence[JobId]) -> list[JobId]:
        return await self._operate(lambda tx: resume(tx, ids), ids)

    async def request_cancel(self, ids: Sequence[JobId]) -> list[JobId]:
        return await self._operate(lambda tx: request_cancel(tx, ids), ids)

    async def requeue(self, ids: Sequence[JobId]) -> list[JobId]:
        return await self._operate(lambda tx: requeue(tx, ids), ids)

    async def reschedule(self, ids: Sequence[JobId], due: float | datetime) -> list[JobId]:
        return await self._operate(lambda tx: reschedule(tx, ids, _moment(tx.now, due)), ids)

    async def edit(
        self, ids: Sequence[JobId], args: str | None = None, tags: Sequence[str] | None = None
    ) -> list[JobId]:
        return await self._operate(lambda tx: edit(tx, ids, args, tags), ids)

    async def reprioritise(self, ids: Sequence[JobId], priority: int) -> list[JobId]:
        return await self._operate(lambda tx: reprioritise(tx, ids, priority), ids)

    async def move(self, ids: Sequence[JobId], queue: str) -> list[JobId]:
        return await self._operate(lambda tx: move(tx, ids, queue), ids)

    async def delete(self, ids: Sequence[JobId]) -> list[JobId]:
        return await self._operate(lambda tx: delete(tx, ids), ids)

    async def _operate(
        self, verb: Callable[[Transaction], list[JobId]], ids: Sequence[JobId]
    ) -> list[JobId]:
        return await self._writer.write(verb) if ids else []


def resume(tx: Transaction, ids: Sequence[JobId]) -> list[JobId]:
    jobs = in_places(tx.rows(script("jobs/resume"), (to_json(ids),)), order=ids)
    make_ready(tx, jobs, What.RESUMED)
    return [JobId(row.job_id) for _, row in jobs]


def request_cancel(tx: Transaction, ids: Iterable[JobId]) -> list[JobId]:
    values = {"ids": to_json(ids), "now": tx.now}
    marked = tx.rows(script("jobs/request_cancel"), values)
    for worker in {worker for _, worker, is_there in marked if is_there}:
        tx.wake(Topic.CANCEL, worker)
    return [JobId(job_id) for job_id, *_ in marked]


def requeue(tx: Transaction, ids: Iterable[JobId]) -> list[JobId]:
    """One at a time and in the order named: of two jobs with one key only the first returns."""
    sql = steps("jobs/requeue")
    requeued: list[JobId] = []
    for *columns, state, key, states in tx.rows(sql["find"], (to_json(dict.fromkeys(ids)),)):
        row = Narrow._make(columns)
        if key is not None and not retake_key(tx, key, row.job_id, states):
            continue
        tx.run(sql["drop outcome"], (row.job_id,))
        tx.run(sql["drop deadline"], (row.job_id,))
        line_up(tx, [row._replace(attempts=0, crashes=0)])
        tx.run(steps("schedules/record")["restart"], (row.job_id,))
        tx.count(row.queue, row.task, state, JobState.READY, What.REQUEUED)
        requeued.append(JobId(row.job_id))
    return requeued


def reschedule(tx: Transaction, ids: Sequence[str], due: int) -> list[JobId]:
    """Make ready and scheduled jobs due at the moment `due`; if it has come, they are ready."""
    jobs = in_places(tx.rows(script("jobs/reschedule"), (to_json(ids),)), order=ids)
    if due <= tx.now:
        waiting = [(place, row) for place, row in jobs if place is JobState.SCHEDULED]
        make_ready(tx, waiting, What.RESCHEDULED)
    else:
        leave_all(tx, jobs)
        count(tx, jobs, JobState.SCHEDULED, What.RESCHEDULED)
        rows = [(*row, None, due) for _, row in jobs]
        tx.each(steps("parts/enter")[JobState.SCHEDULED], rows)
        tx.wake(Topic.DUE)
    return [JobId(row.job_id) for _, row in jobs]


def _moment(now: int, due: float | datetime) -> int:
    return to_micros(due) if isinstance(due, datetime) else after(now, due)


def edit(
    tx: Transaction, ids: Iterable[JobId], args: str | None, tags: Sequence[str] | None
) -> list[JobId]:
    values = {
        "ids": to_json(ids),
        "args": args,
        "tags": None if tags is None else to_json(tags),
    }
    return [JobId(job_id) for (job_id,) in tx.rows(script("jobs/edit"), values)]


def reprioritise(tx: Transaction, ids: Iterable[JobId], priority: int) -> list[JobId]:
    """A job's position within the new priority is by arrival, as if it had always been there."""
    changed = _update("jobs/reprioritise", tx, ids, priority)
    note_return(tx)
    return changed


def move(tx: Transaction, ids: Sequence[JobId], queue: str) -> list[JobId]:
    for place in WAITING_PLACES:
        for old, task, jobs in tx.rows(at("parts/count_moving", place), (to_json(ids), queue)):
            tx.count(old, task, place, NOWHERE, What.MOVED, jobs)
            tx.count(queue, task, NOWHERE, place, What.MOVED, jobs)
    moved = _update("jobs/move", tx, ids, queue)
    note_return(tx)
    tx.wake(Topic.READY, queue, MANY)
    return moved


def _update(verb: str, tx: Transaction, ids: Iterable[JobId], value: object) -> list[JobId]:
    """Run the verb's statement in every place where jobs wait; returns the jobs that it changed."""
    wanted = {"ids": to_json(ids), "value": value}
    return [
        JobId(job_id) for place in WAITING_PLACES for (job_id,) in tx.rows(at(verb, place), wanted)
    ]


def delete(tx: Transaction, ids: Iterable[JobId]) -> list[JobId]:
    ended = tx.rows(script("jobs/delete"), (to_json(set(ids)),))
    remove(tx, ended, What.DELETED)
    return [JobId(job_id) for job_id, *_ in ended]
