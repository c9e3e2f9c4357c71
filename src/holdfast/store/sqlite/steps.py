"""Steps on SQLite."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.job.ids import JobId
from holdfast.job.signal import Recalled
from holdfast.job.step import Step, StepRecord
from holdfast.job.ties import OF_ATTEMPTS, Tie
from holdfast.store.sqlite.places import Narrow
from holdfast.store.sqlite.rows import after, to_datetime, to_json, to_optional_datetime
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.settling import let_go_of_children
from holdfast.store.sqlite.signals import to_signal
from holdfast.store.sqlite.transaction import Row, Transaction
from holdfast.store.sqlite.writer import Verbs

SMALL_BATCH = 64
"""So many records are written in less than a millisecond."""
STEPS = int(Tie.STEPS)
CHILDREN = int(Tie.PARENT | Tie.UNDO)
"""Ties of jobs that may have flows beside them."""


class SqliteSteps(Verbs):
    """See `holdfast.store.contract.steps.Steps` for what each verb promises."""

    async def record(self, records: Sequence[StepRecord]) -> list[bool]:
        if not records or (len(records) == 1 and self._is_kept_alone(records[0])):
            return [True] * len(records)
        return await self._writer.write(
            lambda tx: record(tx, records), small=len(records) <= SMALL_BATCH
        )

    def _is_kept_alone(self, one: StepRecord) -> bool:
        """Write the next step of a running job that has some, by one statement. It writes nothing
        if there is more to do, which the long way finds out: the job does not run with this fence,
        it has no tie yet, or it has a step of this name."""
        if one.takes is not None or one.undo is not None:
            return False
        _, name, n, fence, tries, *said, _ = _row(one, self._writer.now())
        sql = steps("steps/record")["keep alone"]
        return self._writer.write_alone(sql, (name, n, tries, *said, one.id, fence)) == 1

    async def load(self, ids: Sequence[JobId]) -> dict[JobId, list[Step]]:
        if not ids:
            return {}
        wanted = (to_json(dict.fromkeys(ids)),)
        rows = await self._writer.read(lambda tx: tx.rows(script("steps/load"), wanted))
        found: dict[JobId, list[Step]] = {}
        for row in rows:
            found.setdefault(JobId(row[0]), []).append(_step(row))
        return found

    async def recall(self, ids: Sequence[JobId]) -> dict[JobId, Recalled]:
        if not ids:
            return {}
        wanted = (to_json(dict.fromkeys(ids)),)
        found: dict[JobId, Recalled] = {}
        for row in await self._writer.read(lambda tx: tx.rows(script("steps/recall"), wanted)):
            job, is_step, name, n, *_, key, taken_by = row
            of_job = found.setdefault(JobId(job), Recalled([], []))
            if is_step:
                of_job.steps.append(_step((job, *row[2:14])))
            else:
                of_job.signals.append(to_signal((job, n, name, row[6], key, taken_by, row[11])))
        return found


def record(tx: Transaction, records: Sequence[StepRecord]) -> list[bool]:
    sql = steps("steps/record")
    kept = held_and_tied(tx, [(one.id, one.fence) for one in records])
    ours = [one for one, is_ours in zip(records, kept, strict=True) if is_ours]
    if ours:
        tx.each(sql["keep"], [_row(one, tx.now) for one in ours])
    if taking := [(one.name, one.id, one.takes) for one in ours if one.takes]:
        tx.each(sql["take"], taking)
    if undoable := {one.id for one in ours if one.undo is not None}:
        tx.run(sql["tie undo"], (to_json(undoable),))
    return kept


def held_and_tied(tx: Transaction, writes: Sequence[tuple[JobId, int]]) -> list[bool]:
    """Which of these jobs run with these fences. Such a job gets its tie with what it writes first,
    so that only jobs with steps or streams are asked for them."""
    sql = steps("steps/record")
    if len(writes) == 1:  # by the row's own key: a list of one takes twice as long
        rows = tx.rows(sql["held alone"], (writes[0][0],))
    else:
        rows = tx.rows(sql["held"], (to_json({job for job, _ in writes}),))
    held = {job: (fence, ties) for job, fence, ties in rows}
    kept = [job in held and held[job][0] == fence for job, fence in writes]
    ours = {job for (job, _), is_ours in zip(writes, kept, strict=True) if is_ours}
    if new := {job for job in ours if not held[job][1] & STEPS}:
        tx.run(sql["tie"], (to_json(new),))
    return kept


def end_waits(tx: Transaction, ids: Iterable[str]) -> None:
    """Let the waits of these jobs be over now."""
    tx.run(steps("steps/record")["end waits"], {"now": tx.now, "ids": to_json(ids)})


def forget(tx: Transaction, ids: Iterable[str]) -> None:
    """Remove the steps, the signals and the streams of these jobs."""
    sql, named = steps("steps/record"), (to_json(ids),)
    tx.run(sql["forget"], named)
    tx.run(sql["forget signals"], named)
    tx.run(steps("streams/append")["forget"], named)


def begun_anew(tx: Transaction, rows: Sequence[Narrow]) -> list[Narrow]:
    """Ended jobs as they begin again: without attempts, crashes and steps."""
    if with_steps := [row.job_id for row in rows if row.ties & STEPS]:
        forget(tx, with_steps)
    if parents := [row.job_id for row in rows if row.ties & CHILDREN]:
        let_go_of_children(tx, parents)
    return [row._replace(attempts=0, crashes=0, ties=row.ties & ~OF_ATTEMPTS) for row in rows]


def _row(one: StepRecord, now: int) -> Row:
    until = None if one.seconds is None else after(now, one.seconds)
    said = (one.result, one.kind, one.message, one.version)
    return (one.id, one.name, one.n, one.fence, one.tries, *said, until, now, one.awaits, one.undo)


def _step(row: Row) -> Step:
    _, name, n, fence, tries, result, kind, message, version, until, at, awaits, undo = row
    return Step(
        name=name,
        n=n,
        fence=fence,
        tries=tries,
        at=to_datetime(at),
        result_json=result,
        kind=kind,
        message=message,
        version=version,
        until=to_optional_datetime(until),
        awaits=awaits,
        undo=undo,
    )
