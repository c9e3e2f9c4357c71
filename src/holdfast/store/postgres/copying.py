"""COPY for bulk: many jobs without keys, straight into their places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial

from holdfast.job.policy import readable_part
from holdfast.job.record import NewJob
from holdfast.job.ties import Tie
from holdfast.store.body import SHARED, Values, body_reader
from holdfast.store.postgres.connection import Connections, Session
from holdfast.store.postgres.copy_format import (
    double,
    fields,
    integer,
    moment,
    parcels,
    small,
    text,
    texts,
    uuid,
)

PERMITS = int(Tie.PERMITS)
COPY_FROM_JOBS = 100
"""With half as many jobs one statement costs the same."""
MOST_QUEUES_NAMED = 20
"""A wakeup for jobs of more queues than these names none, which means any."""

_JOB = ("id", "args", "deadline_at", "timeout", "created_at", "task", *SHARED)
_READY = ("job_id", "queue", "priority", "task", "since")
_SCHEDULED = ("job_id", "due_at", "queue", "priority", "task")
_BLOCKED = ("job_id", "queue", "priority", "task")
_DEADLINE = ("job_id", "at")
_LINE = ("buckets", "costs")
_LIMITED = ("job_id", *_LINE, "weight")

_kind = body_reader(("task", *SHARED))

Keyed = list[tuple[bytes, NewJob]]
Timed = list[tuple[bytes, NewJob, datetime]]


def can_copy(jobs: Sequence[NewJob]) -> bool:
    """True for many jobs of which each can be written by itself: without unique key, tied to
    nothing but limits, and waiting for nothing but time and those."""
    return len(jobs) >= COPY_FROM_JOBS and not any(
        job.ties & ~PERMITS or job.blocked or job.unique is not None for job in jobs
    )


def can_copy_nodes(jobs: Sequence[NewJob]) -> bool:
    """The same for jobs of one flow or more, which have ties, and may be blocked."""
    return len(jobs) >= COPY_FROM_JOBS and not any(job.unique is not None for job in jobs)


async def copy_rows(
    connections: Connections,
    session: Session,
    table: str,
    columns: Sequence[str],
    rows: Iterable[bytes],
) -> None:
    await session.connection.copy_to_table(
        table,
        schema_name=connections.options.schema,
        columns=list(columns),
        source=parcels(rows),
        format="binary",
    )


async def copy_jobs(connections: Connections, session: Session, jobs: Sequence[NewJob]) -> None:
    """Write the jobs with one wakeup for all; the caller has begun a transaction.

    Fails on an id that is already there: the caller then inserts with a check for each.
    """
    copy = partial(copy_rows, connections, session)
    [(now,)] = await session.timed("store/now")
    keyed = [(uuid(job.id), job) for job in jobs]
    blocked = [(key, job) for key, job in keyed if job.blocked]
    ready, later = _by_turn(keyed, now)
    dated = _dated(keyed, now)
    tie = ("ties",) if any(job.ties for job in jobs) else ()
    await copy("job", _JOB, _bodies(keyed, now))
    limited = [(key, job) for key, job in keyed if job.buckets] if tie else []
    if limited:
        await copy("limited", _LIMITED, _passing(limited))
    if lined := [(key, job) for key, job in ready if job.buckets] if limited else []:
        await copy("ready_limited", (*_READY, *tie, *_LINE), _lined(lined, moment(now)))
        await _tell_lines(session, [job for _, job in lined])
    if unlined := [(key, job) for key, job in ready if not job.buckets] if lined else ready:
        place = "ready" if tie else "ready_plain"
        await copy(place, (*_READY, *tie), _placed(unlined, moment(now), tie))
    if blocked:
        await copy("blocked", (*_BLOCKED, *tie), _placed(blocked, b"", tie))
    if later:
        await copy("scheduled", (*_SCHEDULED, *tie), _scheduled(later, tie))
    if dated:
        await copy("deadline", _DEADLINE, (fields(2) + key + moment(at) for key, _, at in dated))
    pairs = Counter((job.queue, job.task, "ready") for _, job in ready)
    pairs.update((job.queue, job.task, "blocked") for _, job in blocked)
    pairs.update((job.queue, job.task, "scheduled") for _, job, _ in later)
    columns = map(list, zip(*((*pair, number) for pair, number in pairs.items()), strict=True))
    await session.timed("telemetry/enqueued", *columns)
    for payload in _wakeups({job.queue for _, job in ready}, bool(later or dated)):
        await session.fetch("wakeups/wake", connections.options.channel, payload)


def _wakeups(queues: set[str], timed: bool) -> list[str]:
    named = ",".join(sorted(queues)) if len(queues) <= MOST_QUEUES_NAMED else ""
    return [f"ready:{named}"] * bool(queues) + ["due"] * timed


def _by_turn(keyed: Keyed, now: datetime) -> tuple[Keyed, Timed]:
    """The jobs whose turn is now, and the jobs that are due later, with their times."""
    ready: Keyed = []
    later: Timed = []
    for key, job in keyed:
        if job.blocked:
            continue
        if job.run_at is None and not job.delay:
            ready.append((key, job))
            continue
        due = job.run_at or now + timedelta(seconds=job.delay or 0.0)
        if due > now:
            later.append((key, job, due))
        else:
            ready.append((key, job))
    return ready, later


def _dated(keyed: Keyed, now: datetime) -> Timed:
    found = ((key, job, _deadline(job, now)) for key, job in keyed)
    return [(key, job, at) for key, job, at in found if at is not None]


def _deadline(job: NewJob, now: datetime) -> datetime | None:
    if job.deadline_at is not None or job.deadline_in is None:
        return job.deadline_at
    return now + timedelta(seconds=job.deadline_in)


def _bodies(keyed: Keyed, now: datetime) -> Iterator[bytes]:
    head, kinds = fields(len(_JOB)), dict[tuple[object, ...], bytes]()
    for key, job in keyed:
        kind = _kind(job)
        if (shared := kinds.get(kind)) is None:
            shared = kinds[kind] = _shared(job, kind, now)
        yield head + key + text(job.args) + moment(_deadline(job, now)) + shared


def _shared(job: NewJob, kind: Values, now: datetime) -> bytes:
    """The fields that jobs of one kind have in common."""
    timeout = readable_part(job.policy).timeout
    told = (texts(value) if isinstance(value, tuple) else text(value) for value in kind)
    return b"".join((double(timeout), moment(now), *told))


def _placed(keyed: Keyed, since: bytes, tie: tuple[str, ...]) -> Iterator[bytes]:
    """Rows of ready or blocked jobs: all but their ids is made once for many."""
    turns: dict[tuple[object, ...], bytes] = {}
    head = fields(len(_BLOCKED) + bool(since) + len(tie))
    for key, job in keyed:
        turn = (job.queue, job.priority, job.task, job.ties)
        if (shared := turns.get(turn)) is None:
            shared = turns[turn] = _turn(job) + since + _ties(job, tie)
        yield head + key + shared


def _passing(keyed: Keyed) -> Iterator[bytes]:
    head = fields(len(_LIMITED))
    for key, job in keyed:
        yield head + key + text(job.buckets) + text(job.costs or "") + integer(job.weight)


def _lined(keyed: Keyed, since: bytes) -> Iterator[bytes]:
    """Rows of ready jobs that stand in lines."""
    head = fields(len(_READY) + 1 + len(_LINE))
    for key, job in keyed:
        line = text(job.buckets) + text(job.costs or "")
        yield head + key + _turn(job) + since + small(job.ties) + line


async def _tell_lines(session: Session, jobs: Iterable[NewJob]) -> None:
    lines = {(job.queue, job.priority, job.task, job.buckets): job.weight for job in jobs}
    columns = map(list, zip(*lines, strict=True))
    await session.fetch("limits/come", *columns, [*lines.values()])


def _scheduled(later: Timed, tie: tuple[str, ...]) -> Iterator[bytes]:
    head = fields(len(_SCHEDULED) + len(tie))
    for key, job, due in later:
        yield head + key + moment(due) + _turn(job) + _ties(job, tie)


def _ties(job: NewJob, tie: tuple[str, ...]) -> bytes:
    """Nothing where no job of the batch has ties: then the rows have no such column."""
    return small(job.ties) if tie else b""


def _turn(job: NewJob) -> bytes:
    return text(job.queue) + integer(job.priority) + text(job.task)
