"""Adding jobs, and what a unique key makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import assert_never

from holdfast.job.ends import Cancelled
from holdfast.job.happening import DEBOUNCED
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.record import Inserted, NewJob
from holdfast.job.state import WAITING, JobState
from holdfast.job.unique import Unique
from holdfast.job.what import What
from holdfast.store.body import SHARED, body_reader
from holdfast.store.contract.wakeups import Topic
from holdfast.store.sqlite.finishing import finish
from holdfast.store.sqlite.keys import holder_of, states_of, take_key
from holdfast.store.sqlite.limited import KeptLine, by_place, grouped, stand
from holdfast.store.sqlite.operating import edit, reschedule
from holdfast.store.sqlite.places import at, take_numbers
from holdfast.store.sqlite.reading import live
from holdfast.store.sqlite.rows import after, to_each, to_json, to_json_object, to_micros
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import NOWHERE, Row, Transaction
from holdfast.store.sqlite.writer import Verbs

SMALL_BATCH, SMALL_ARGS = 10, 8_192

MANY_ALIKE = 20
"""From so many jobs on, a statement for all of one kind takes a quarter of what their rows take."""
SHORT_ARGS = 256
"""Longer arguments, which SQLite has to take out of a JSON text, take longer than rows do."""

_line = itemgetter(1, 2, 4, 8)  # of a narrow row: queue, priority, task, ties
_shared = attrgetter("task", *SHARED)
_shared_with_key = attrgetter("unique", "task", *SHARED)
_body_values = body_reader(flat=to_json, empty=None)
_shared_values = body_reader(SHARED, flat=to_json, empty=None)


class SqliteInserting(Verbs):
    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        if not jobs:
            return []
        return await self._writer.write(lambda tx: insert(tx, jobs), small=is_small(jobs))


def is_small(jobs: Sequence[NewJob]) -> bool:
    """Whether a batch is written in a fraction of a millisecond: few jobs, short arguments, no
    unique keys. Looking up a key may read a cold page from disk; other inserts only append."""
    return len(jobs) <= SMALL_BATCH and all(
        job.unique is None and len(job.args) <= SMALL_ARGS for job in jobs
    )


def insert(tx: Transaction, jobs: Sequence[NewJob]) -> list[Inserted]:
    """Add jobs. Those without a key are written together. A job with a key is written at once,
    because the next job of the batch may have the same key."""
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
        write_new(tx, plain)
    return answers


def _known(tx: Transaction, ids: Sequence[JobId]) -> dict[JobId, tuple[str, str]]:
    """The task and arguments of those ids that exist. Ids are made in order of time, so most
    batches have only ids newer than the newest job, and one look tells that."""
    [(newest,)] = tx.rows(steps("jobs/insert")["newest"])
    if newest is None or newest < min(ids):
        return {}
    rows = tx.rows(steps("jobs/insert")["known"], (to_json(ids),))
    return {JobId(job_id): (task, args) for job_id, task, args in rows}


def _insert_unique(tx: Transaction, job: NewJob, unique: Unique) -> Inserted:
    holder = holder_of(tx, unique.key)
    answer = Inserted(job.id, "created")
    if holder is not None:
        answer = _conflict(tx, job, unique, *holder)
        if answer.id != job.id:
            return answer
    write_new(tx, [job])
    take_key(tx, job.id, unique)
    return answer


def _conflict(
    tx: Transaction, job: NewJob, unique: Unique, holder: JobId, state: JobState
) -> Inserted:
    match unique.on_conflict:
        case "replace" if state in WAITING:
            [held] = live(tx, [holder])
            finish(tx, [decide(held, Cancelled(f"replaced by {job.id}"))])
            return Inserted(job.id, "replaced")
        case "debounce" if state in (JobState.READY, JobState.SCHEDULED) and edit(
            tx, [holder], job.args, None, DEBOUNCED
        ):
            due = _debounced(tx, job, unique, holder)
            reschedule(tx, [holder], due, message=DEBOUNCED)
            return Inserted(holder, "debounced")
        case "keep" | "replace" | "debounce":
            return Inserted(holder, "existing")
    assert_never(unique.on_conflict)


def _debounced(tx: Transaction, job: NewJob, unique: Unique, holder: JobId) -> int:
    """When a holder is due that a newer call pushes out."""
    due = _due(job, tx.now)
    if unique.max_wait is None:
        return due
    [(created_at,)] = tx.rows(steps("jobs/insert")["created"], (holder,))
    return min(due, after(created_at, unique.max_wait))


def write_new(tx: Transaction, jobs: Sequence[NewJob]) -> None:
    """Write jobs that are not there."""
    sql, enter = steps("jobs/insert"), steps("parts/enter")
    now = tx.now
    ready: list[Row] = []
    scheduled: list[Row] = []
    blocked: list[Row] = []
    limited: list[Row] = []
    for seq, job in enumerate(jobs, take_numbers(tx, len(jobs))):
        narrow = (job.id, job.queue, job.priority, seq, job.task, 0, 0, 0, job.ties)
        if job.blocked:
            blocked.append(narrow)
        elif (due := _due(job, now)) <= now:
            (limited if job.buckets else ready).append(narrow + (now,))  # noqa: RUF005 (half the time)
        else:
            scheduled.append((*narrow, None, due))
    kept = _kept(jobs)
    _write_bodies(tx, jobs, kept)
    if ready:
        _enter(tx, JobState.READY, enter[JobState.READY], ready)
    if limited:
        _stand(tx, limited, kept)
    if scheduled:
        tx.each(enter[JobState.SCHEDULED], scheduled)
        _count(tx, JobState.SCHEDULED, scheduled)
    if blocked:
        _enter(tx, JobState.BLOCKED, at("parts/wait_untimed", JobState.BLOCKED), blocked)
    deadlines = _deadlines(jobs, now)
    if deadlines:
        tx.each(sql["deadline"], deadlines)
    if scheduled or deadlines:
        tx.wake(Topic.DUE)


def _kept(jobs: Sequence[NewJob]) -> dict[str, KeptLine]:
    return {job.id: KeptLine(job.buckets, job.costs, job.weight) for job in jobs if job.buckets}


def _write_bodies(tx: Transaction, jobs: Sequence[NewJob], kept: Mapping[str, KeptLine]) -> None:
    if kept:
        _write_passing(tx, [job for job in jobs if job.buckets], kept)
        jobs = [job for job in jobs if not job.buckets]
    if len(jobs) >= MANY_ALIKE and _are_of_few_kinds(jobs[:MANY_ALIKE]):
        jobs = _write_kinds(tx, jobs)
    tx.fill(steps("jobs/insert")["body"], [_body(job, tx.now) for job in jobs])


def _write_passing(tx: Transaction, jobs: Sequence[NewJob], kept: Mapping[str, KeptLine]) -> None:
    """Write the bodies of jobs with limits. Most jobs of a batch are of one kind, and differ in
    their ids, in their arguments and in what they pass."""
    for alike in grouped(_shared_with_key, jobs).values():
        texts = to_each([kept[job.id] for job in alike])
        rows = [(job.id, job.args, text) for job, text in zip(alike, texts, strict=True)]
        shared = (tx.now, *_key_columns(alike[0]), *kind_of(alike[0]))
        tx.fill_alike(steps("jobs/insert")["bodies that pass"], rows, shared)


def _are_of_few_kinds(first: Sequence[NewJob]) -> bool:
    """Whether it is worth looking for kinds. The first jobs of a batch tell of all."""
    return len(set(map(_shared, first))) * 4 <= len(first)


def _write_kinds(tx: Transaction, jobs: Sequence[NewJob]) -> list[NewJob]:
    """Write the bodies of many jobs without keys that differ in their ids and arguments alone, a
    statement for each kind: what they share is bound once. Returns the jobs that are left: those of
    small kinds, and those with long arguments."""
    kinds: dict[Row, list[NewJob]] = {}
    left: list[NewJob] = []
    for job in jobs:
        if len(job.args) > SHORT_ARGS:
            left.append(job)
        else:
            kinds.setdefault(_shared(job), []).append(job)
    for alike in kinds.values():
        if len(alike) < MANY_ALIKE:
            left += alike
        else:
            write_alike(tx, kind_of(alike[0]), {job.id: job.args for job in alike})
    return left


def _enter(tx: Transaction, place: JobState, sql: str, rows: Sequence[Row]) -> None:
    """Put jobs in a place: many that have the same queue, priority, task and ties by one
    statement, others by their rows."""
    if len(rows) >= MANY_ALIKE and len(lines := set(map(_line, rows))) == 1:
        enter_alike(tx, place, lines.pop(), {row[0]: row[3] for row in rows})
    else:
        tx.fill(sql, rows)
    _count(tx, place, rows)


def _stand(tx: Transaction, rows: Sequence[Row], kept: Mapping[str, KeptLine]) -> None:
    """Put new jobs with limits in their lines."""
    places = by_place(rows)
    stand(tx, places, kept)
    for (queue, _, task), some in places.items():
        _note(tx, JobState.READY, queue, task, len(some))


def enter_alike(tx: Transaction, place: JobState, line: Row, seqs: Mapping[JobId, int]) -> None:
    """Put new jobs of one queue, priority, task and ties in a place: ready or blocked."""
    values = dict(zip(("queue", "priority", "task", "ties"), line, strict=True))
    values["seqs"] = to_json_object(seqs)
    if place is JobState.READY:
        values["now"] = tx.now
    tx.run(steps("jobs/insert")[f"alike and {place}"], values)


def kind_of(job: NewJob) -> Row:
    """What jobs of a kind share."""
    return (job.task,) + _shared_values(job)  # noqa: RUF005 (half the time)


def write_alike(tx: Transaction, kind: Row, args: Mapping[JobId, str]) -> None:
    """Write bodies that share their task and all but the arguments."""
    shared = dict(zip(("task", *SHARED), kind, strict=True))
    values = {**shared, "now": tx.now, "args": to_json_object(args)}
    tx.run(steps("jobs/insert")["alike bodies"], values)


def _count(tx: Transaction, place: JobState, rows: Sequence[Row]) -> None:
    """Note for the books what came to this place, and wake workers if they can claim it. For one
    row a Counter makes more calls than a dict."""
    pairs: dict[tuple[str, str], int] = {}
    for row in rows:
        pair = (row[1], row[4])
        pairs[pair] = pairs.get(pair, 0) + 1
    for (queue, task), jobs in pairs.items():
        _note(tx, place, queue, task, jobs)


def _note(tx: Transaction, place: JobState, queue: str, task: str, jobs: int) -> None:
    tx.count(queue, task, NOWHERE, place, What.ENQUEUED, jobs)
    if place is JobState.READY:
        tx.wake(Topic.READY, queue, jobs)


def _body(job: NewJob, now: int) -> Row:
    return (job.id, job.task, now) + _key_columns(job) + _body_values(job)  # noqa: RUF005 (half the time)


def _key_columns(job: NewJob) -> Row:
    unique = job.unique
    return (None, None) if unique is None else (unique.key, states_of(unique))


def _due(job: NewJob, now: int) -> int:
    """When a job may run. A blocked call has no time of its own: if it debounces the holder of its
    key, that job is due now."""
    if job.blocked:
        return now
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
