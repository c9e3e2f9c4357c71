"""What operators do to jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from holdfast.job.happening import parts_edited
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.job.ties import BEGUN
from holdfast.job.what import What
from holdfast.store.contract.wakeups import Topic
from holdfast.store.sqlite.audit import SqliteAudit
from holdfast.store.sqlite.happenings import NewHappening, tell, waiting
from holdfast.store.sqlite.keys import retake_key
from holdfast.store.sqlite.limited import stand_anew
from holdfast.store.sqlite.places import (
    InPlace,
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
from holdfast.store.sqlite.steps import STEPS, begun_anew, end_waits
from holdfast.store.sqlite.sweeping import remove
from holdfast.store.sqlite.transaction import MANY, NOWHERE, Transaction
from holdfast.store.sqlite.writer import Verbs


class SqliteOperating(Verbs):
    @property
    def audit(self) -> SqliteAudit:
        return SqliteAudit(self._writer)

    async def resume(self, ids: Sequence[JobId], by: str | None = None) -> list[JobId]:
        return await self._operate(lambda tx: resume(tx, ids, by), ids)

    async def request_cancel(
        self, ids: Sequence[JobId], by: str | None = None, why: str | None = None
    ) -> list[JobId]:
        reasons = {} if why is None else dict.fromkeys(ids, why)
        return await self._operate(lambda tx: request_cancel(tx, ids, by, reasons), ids)

    async def requeue(self, ids: Sequence[JobId], by: str | None = None) -> list[JobId]:
        return await self._operate(lambda tx: requeue(tx, ids, by), ids)

    async def reschedule(
        self, ids: Sequence[JobId], due: float | datetime, by: str | None = None
    ) -> list[JobId]:
        return await self._operate(lambda tx: reschedule(tx, ids, _moment(tx.now, due), by), ids)

    async def edit(
        self,
        ids: Sequence[JobId],
        args: str | None = None,
        tags: Sequence[str] | None = None,
        by: str | None = None,
    ) -> list[JobId]:
        told = parts_edited(args, tags)
        return await self._operate(lambda tx: edit(tx, ids, args, tags, told, by), ids)

    async def reprioritise(
        self, ids: Sequence[JobId], priority: int, by: str | None = None
    ) -> list[JobId]:
        return await self._operate(lambda tx: reprioritise(tx, ids, priority, by), ids)

    async def move(self, ids: Sequence[JobId], queue: str, by: str | None = None) -> list[JobId]:
        return await self._operate(lambda tx: move(tx, ids, queue, by), ids)

    async def delete(self, ids: Sequence[JobId]) -> list[JobId]:
        return await self._operate(lambda tx: delete(tx, ids), ids)

    async def _operate(
        self, verb: Callable[[Transaction], list[JobId]], ids: Sequence[JobId]
    ) -> list[JobId]:
        return await self._writer.write(verb) if ids else []


def resume(tx: Transaction, ids: Sequence[JobId], by: str | None) -> list[JobId]:
    jobs = in_places(tx.rows(script("jobs/resume"), (to_json(ids),)), order=ids)
    make_ready(tx, jobs, What.RESUMED)
    if with_steps := [row.job_id for _, row in jobs if row.ties & STEPS]:
        end_waits(tx, with_steps)
    tell(tx, [waiting(row, What.RESUMED, by) for _, row in jobs])
    return [JobId(row.job_id) for _, row in jobs]


def request_cancel(
    tx: Transaction,
    ids: Iterable[JobId],
    by: str | None = None,
    reasons: Mapping[JobId, str] | None = None,
) -> list[JobId]:
    """`reasons`: why each of the jobs is to end, where they are not all alike."""
    sql = steps("jobs/request_cancel")
    wanted = to_json(ids)
    asked: list[JobId] = []
    told: list[NewHappening] = []
    for job_id, attempts, fence, worker, claimed_at, is_first, is_there in tx.rows(
        sql["asked"], (wanted,)
    ):
        asked.append(JobId(job_id))
        if is_there:
            tx.wake(Topic.CANCEL, worker)
        if is_first:
            told.append(
                NewHappening(
                    job_id=job_id,
                    what=What.CANCEL_ASKED,
                    attempt=attempts + 1,
                    fence=fence,
                    worker_id=worker,
                    claimed_at=claimed_at,
                    by=by,
                    message=(reasons or {}).get(JobId(job_id)),
                )
            )
    tx.run(sql["mark"], (tx.now, wanted))
    tell(tx, told)
    return asked


def requeue(tx: Transaction, ids: Iterable[JobId], by: str | None) -> list[JobId]:
    """One at a time and in the order named: of two jobs with one key only the first returns."""
    sql = steps("jobs/requeue")
    requeued: list[Narrow] = []
    for *columns, state, key, states in tx.rows(sql["find"], (to_json(dict.fromkeys(ids)),)):
        row = Narrow._make(columns)
        if key is not None and not retake_key(tx, key, row.job_id, states):
            continue
        tx.run(sql["drop outcome"], (row.job_id,))
        tx.run(sql["drop deadline"], (row.job_id,))
        line_up(tx, begun_anew(tx, [row]))
        tx.run(steps("schedules/record")["restart"], (row.job_id,))
        tx.count(row.queue, row.task, state, JobState.READY, What.REQUEUED)
        requeued.append(row)
    tell(tx, [waiting(row, What.REQUEUED, by) for row in requeued])
    return [JobId(row.job_id) for row in requeued]


def reschedule(
    tx: Transaction,
    ids: Sequence[str],
    due: int,
    by: str | None = None,
    message: str | None = None,
) -> list[JobId]:
    """Make ready and scheduled jobs due at the moment `due`; if it has come, they are ready."""
    found = tx.rows(script("jobs/reschedule"), (to_json(ids),))
    was_due = {job_id: due_at for due_at, _, job_id, *_ in found}
    jobs = in_places((row[1:] for row in found), order=ids)
    if due <= tx.now:
        moved = [(place, row) for place, row in jobs if place is JobState.SCHEDULED]
        make_ready(tx, moved, What.RESCHEDULED)
        tell(tx, [waiting(row, What.RESCHEDULED, by, message) for _, row in moved])
    else:
        leave_all(tx, jobs)
        count(tx, jobs, JobState.SCHEDULED, What.RESCHEDULED)
        rows = [(*row, None, due) for _, row in jobs]
        tx.each(steps("parts/enter")[JobState.SCHEDULED], rows)
        tx.wake(Topic.DUE)
        others = [row for _, row in jobs if was_due[row.job_id] != due]
        tell(tx, [waiting(row, What.RESCHEDULED, by, message, due_at=due) for row in others])
    return [JobId(row.job_id) for _, row in jobs]


def _moment(now: int, due: float | datetime) -> int:
    return to_micros(due) if isinstance(due, datetime) else after(now, due)


def edit(
    tx: Transaction,
    ids: Iterable[JobId],
    args: str | None,
    tags: Sequence[str] | None,
    message: str,
    by: str | None = None,
) -> list[JobId]:
    sql = steps("jobs/edit")
    jobs = _waiting(tx, ids)
    if args is not None:
        jobs = [(place, row) for place, row in jobs if not row.ties & BEGUN]
    values = {
        "ids": to_json(row.job_id for _, row in jobs),
        "args": args,
        "tags": None if tags is None else to_json(tags),
    }
    differing = {job_id for (job_id,) in tx.rows(sql["differing"], values)}
    tx.run(sql["edit"], values)
    edited = [row for _, row in jobs if row.job_id in differing]
    tell(tx, [waiting(row, What.EDITED, by, message) for row in edited])
    return [JobId(row.job_id) for _, row in jobs]


def reprioritise(
    tx: Transaction, ids: Iterable[JobId], priority: int, by: str | None
) -> list[JobId]:
    """A job's position within the new priority is by arrival, as if it had always been there."""
    jobs = _waiting(tx, ids)
    changed = [(place, row) for place, row in jobs if row.priority != priority]
    _update(tx, "jobs/reprioritise", changed, priority)
    told = [waiting(row, What.REPRIORITISED, by, str(row.priority)) for _, row in changed]
    tell(tx, told)
    return [JobId(row.job_id) for _, row in jobs]


def move(tx: Transaction, ids: Iterable[JobId], queue: str, by: str | None) -> list[JobId]:
    jobs = _waiting(tx, ids)
    moved = [(place, row) for place, row in jobs if row.queue != queue]
    for place, row in moved:
        tx.count(row.queue, row.task, place, NOWHERE, What.MOVED)
        tx.count(queue, row.task, NOWHERE, place, What.MOVED)
    _update(tx, "jobs/move", moved, queue)
    tx.wake(Topic.READY, queue, MANY)
    tell(tx, [waiting(row, What.MOVED, by, row.queue) for _, row in moved])
    return [JobId(row.job_id) for _, row in jobs]


def _waiting(tx: Transaction, ids: Iterable[JobId]) -> list[InPlace]:
    return in_places(tx.rows(script("parts/waiting"), (to_json(ids),)))


def _update(tx: Transaction, verb: str, jobs: Iterable[InPlace], value: object) -> None:
    """Run the verb's statement in every place where one of the jobs waits."""
    ids: dict[JobState, list[str]] = {}
    for place, row in jobs:
        ids.setdefault(place, []).append(row.job_id)
    for place, named in ids.items():
        tx.run(at(verb, place), (value, to_json(named)))
        if place is JobState.READY:
            stand_anew(tx, named)
    note_return(tx)


def delete(tx: Transaction, ids: Iterable[JobId]) -> list[JobId]:
    ended = tx.rows(script("jobs/delete"), (to_json(set(ids)),))
    remove(tx, ended, What.DELETED)
    return [JobId(job_id) for job_id, *_ in ended]
