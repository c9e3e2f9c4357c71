"""Adding jobs, and what a unique key makes of them.

A key row is lazy: nothing frees it when its job ends. Whoever meets it looks at where the
holder is now; a holder outside the states it asked for has lost the key.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.job.ends import Cancelled
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.record import Inserted, NewJob
from holdfast.job.state import WAITING, JobState
from holdfast.job.unique import Unique
from holdfast.store.contract.records import Topic
from holdfast.store.sqlite.finishing import (
    NARROW,
    finish,
    locate,
    take_numbers,
    to_ready,
    waiting_rows,
)
from holdfast.store.sqlite.reading import live
from holdfast.store.sqlite.rows import after, to_json, to_micros
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Row, Transaction

FEW, SHORT = 10, 8_192


def is_little(jobs: Sequence[NewJob]) -> bool:
    """Whether they take a fraction of a millisecond. A key may be on a page nobody has read for
    long; what has no key is written to the ends of its tables."""
    return len(jobs) <= FEW and all(job.unique is None and len(job.args) <= SHORT for job in jobs)


def insert(tx: Transaction, jobs: Sequence[NewJob]) -> list[Inserted]:
    """Jobs without a key are written together; one with a key must see those before it."""
    if not jobs:
        return []
    known = _known(tx, [job.id for job in jobs])
    answers: list[Inserted] = []
    plain: list[NewJob] = []
    for job in jobs:
        if (there := known.get(job.id)) is not None:
            answers.append(job.repeats(*there))
            continue
        if job.unique is None:
            plain.append(job)
            answer = Inserted(job.id, "created")
        else:
            answer = _insert_unique(tx, job, job.unique)
        if answer.id == job.id:
            known[job.id] = (job.task, job.args)
        answers.append(answer)
    if plain:
        _write(tx, plain)
    return answers


def _known(tx: Transaction, ids: Sequence[JobId]) -> dict[JobId, tuple[str, str]]:
    """The task and arguments of those that are there. Ids are made in order of time, so most are
    newer than any that is."""
    [(newest,)] = tx.rows(steps("jobs/insert")["newest"])
    if newest is None or newest < min(ids):
        return {}
    rows = tx.rows(steps("jobs/insert")["known"], (to_json(ids),))
    return {JobId(job_id): (task, args) for job_id, task, args in rows}


def retake_key(tx: Transaction, key: str, job_id: str, states: str) -> bool:
    """Give the key back to a job that returns to life, unless another holds it by now."""
    holder = _holder(tx, key)
    if holder is not None and holder[0] != job_id:
        return False
    tx.run(steps("jobs/insert")["take key"], (key, job_id, states))
    return True


def _insert_unique(tx: Transaction, job: NewJob, unique: Unique) -> Inserted:
    holder = _holder(tx, unique.key)
    answer = Inserted(job.id, "created")
    if holder is not None:
        answer = _conflict(tx, job, unique, *holder)
        if answer.id != job.id:
            return answer
    _write(tx, [job])
    tx.run(steps("jobs/insert")["take key"], (unique.key, job.id, _states(unique)))
    return answer


def _holder(tx: Transaction, key: str) -> tuple[JobId, JobState] | None:
    """The job that has the key by right: it exists and is in a state it asked for."""
    row = tx.row(steps("jobs/insert")["holder"], (key,))
    if row is None:
        return None
    job_id, states = JobId(row[0]), row[1].split(" ")
    state, _ = locate(tx, [job_id]).get(job_id, (None, 0))
    return (job_id, state) if state is not None and state in states else None


def _conflict(
    tx: Transaction, job: NewJob, unique: Unique, holder: JobId, state: JobState
) -> Inserted:
    if unique.on_conflict == "replace" and state in WAITING:
        [held] = live(tx, [holder])
        finish(tx, [decide(held, Cancelled(f"replaced by {job.id}"))])
        return Inserted(job.id, "replaced")
    if unique.on_conflict == "debounce" and state in (JobState.READY, JobState.SCHEDULED):
        reschedule(tx, [holder], _due(job, tx.now))
        return Inserted(holder, "debounced")
    return Inserted(holder, "existing")


def reschedule(tx: Transaction, ids: Sequence[str], due: int) -> list[JobId]:
    """Make ready or scheduled jobs due at a moment; one that has come means ready now."""
    ready = waiting_rows(tx, JobState.READY, ids)
    scheduled = waiting_rows(tx, JobState.SCHEDULED, ids)
    if due <= tx.now:
        if scheduled:
            to_ready(tx, JobState.SCHEDULED, scheduled)
    else:
        sql = steps("jobs/finish")
        for state, rows in ((JobState.READY, ready), (JobState.SCHEDULED, scheduled)):
            tx.run(sql[f"drop {state}"], (to_json(row[0] for row in rows),))
            tx.each(sql["schedule"], [(*row[:NARROW], None, due) for row in rows])
        tx.wake(Topic.DUE)
    return [JobId(row[0]) for row in (*ready, *scheduled)]


def _write(tx: Transaction, jobs: Sequence[NewJob]) -> None:
    sql = steps("jobs/insert")
    now = tx.now
    ready: list[Row] = []
    scheduled: list[Row] = []
    for seq, job in enumerate(jobs, take_numbers(tx, len(jobs))):
        narrow = (job.id, job.queue, job.priority, seq, job.task, 0, 0, 0)
        due = _due(job, now)
        if due <= now:
            ready.append((*narrow, now))
        else:
            scheduled.append((*narrow, None, due))
    tx.each(sql["body"], [_body(job, now) for job in jobs])
    tx.each(steps("jobs/finish")["ready"], ready)
    tx.each(steps("jobs/finish")["schedule"], scheduled)
    deadlines = _deadlines(jobs, now)
    tx.each(sql["deadline"], deadlines)
    for row in ready:
        tx.wake(Topic.READY, row[1])
    if scheduled or deadlines:
        tx.wake(Topic.DUE)


def _body(job: NewJob, now: int) -> Row:
    return (
        job.id,
        job.task,
        now,
        job.policy,
        to_json(job.tags) if job.tags else None,
        job.headers,
        None if job.unique is None else job.unique.key,
        None if job.unique is None else _states(job.unique),
        job.args,
    )


def _due(job: NewJob, now: int) -> int:
    if job.run_at is not None:
        return to_micros(job.run_at)
    return now if job.delay is None else after(now, job.delay)


def _deadlines(jobs: Sequence[NewJob], now: int) -> list[Row]:
    rows: list[Row] = []
    for job in jobs:
        if job.deadline_at is not None:
            rows.append((job.id, to_micros(job.deadline_at)))
        elif job.deadline_in is not None:
            rows.append((job.id, after(now, job.deadline_in)))
    return rows


def _states(unique: Unique) -> str:
    return " ".join(sorted(unique.states))
