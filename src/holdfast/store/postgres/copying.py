"""COPY for bulk: many jobs without keys, straight into their places.

Jobs of one kind differ in nothing but their ids, their arguments and their lines, and most jobs of
a bulk insert are of one kind. What such jobs share is worked out once and becomes the same bytes of
each of their rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache, partial
from operator import attrgetter, itemgetter

from holdfast.job.policy import readable_part
from holdfast.job.record import NewJob
from holdfast.job.state import JobState
from holdfast.job.ties import Tie
from holdfast.store.body import SHARED, body_reader
from holdfast.store.postgres.connection import Connections, Session
from holdfast.store.postgres.copy_format import (
    double,
    each_uuid,
    fields,
    integer,
    moment,
    parcels,
    small,
    text,
    texts,
)

PERMITS = int(Tie.PERMITS)
READY = JobState.READY
COPY_FROM_JOBS = 100
"""With half as many jobs one statement costs the same."""
MOST_QUEUES_NAMED = 20
"""A wakeup for jobs of more queues than these names none, which means any."""

_JOB = ("id", "args", "deadline_at", "timeout", "created_at", "task", *SHARED)
_TURN = ("job_id", "queue", "priority", "task")
_TIME = {JobState.READY: ("since",), JobState.SCHEDULED: ("due_at",), JobState.BLOCKED: ()}
"""What a row says of time, by the place of its job."""
_DEADLINE = ("job_id", "at")
_LINE = ("buckets", "costs")
_LIMITED = ("job_id", *_LINE, "weight")

_OWN = ("id", "args", *_LINE, "weight")
_kind = body_reader([name for name in NewJob.__struct_fields__ if name not in _OWN])
_shared = body_reader(("task", *SHARED))
_id, _unique = attrgetter("id"), attrgetter("unique")


def can_copy(jobs: Sequence[NewJob]) -> bool:
    """True for many jobs of which each can be written by itself: without unique key, tied to
    nothing but limits, and waiting for nothing but time and those."""
    return len(jobs) >= COPY_FROM_JOBS and not any(
        job.ties & ~PERMITS or job.blocked or job.unique is not None for job in jobs
    )


def can_copy_nodes(jobs: Sequence[NewJob]) -> bool:
    """The same for jobs of one flow or more, which have ties, and may be blocked."""
    return len(jobs) >= COPY_FROM_JOBS and not any(map(_unique, jobs))


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


class JobKind:
    """What jobs of one kind share. `place` is where they go. `body` and `turn` are the bytes behind
    what is a job's own, in the table of bodies and in that of the place, where `ties` come last."""

    __slots__ = ("body", "deadline", "model", "place", "ties", "turn")

    def __init__(self, model: NewJob, now: datetime) -> None:
        self.model = model
        due = model.run_at or now + timedelta(seconds=model.delay or 0.0)
        waiting = JobState.SCHEDULED if due > now else JobState.READY
        self.place = JobState.BLOCKED if model.blocked else waiting
        self.deadline = model.deadline_at
        if self.deadline is None and model.deadline_in is not None:
            self.deadline = now + timedelta(seconds=model.deadline_in)
        self.body = moment(self.deadline) + _body(model, now)
        times = {JobState.READY: moment(now), JobState.SCHEDULED: moment(due)}
        self.turn = _turn(model) + times.get(self.place, b"")
        self.ties = small(model.ties)


class CopiedLine:
    """The line that jobs stand in. `passed` are the fields that jobs of it have in `limited`, and
    `stood` those that they have where they wait."""

    __slots__ = ("buckets", "passed", "stood", "weight")

    def __init__(self, buckets: str, costs: str | None, weight: int) -> None:
        self.buckets = buckets
        self.weight = weight
        self.stood = text(buckets) + text(costs or "")
        self.passed = self.stood + integer(weight)


_line = lru_cache(maxsize=1024)(CopiedLine)
"""Remembered, because the same lines come again in chunk after chunk of a bulk insert."""


Placed = tuple[JobKind, bytes, NewJob]
"""A job with its kind, and its id as a field of rows."""
Lined = tuple[JobKind, bytes, CopiedLine]
"""The same of a job that passes limits, of which the line is all that its rows need."""


async def copy_jobs(
    connections: Connections,
    session: Session,
    jobs: Sequence[NewJob],
    keys: Iterable[bytes] | None = None,
) -> None:
    """Write the jobs with one wakeup for all; the caller has begun a transaction. `keys` are their
    ids as fields, if the caller has made them.

    Fails on an id that is already there: the caller then inserts with a check for each.
    """
    copy = partial(copy_rows, connections, session)
    [(now,)] = await session.timed("store/now")
    placed = _placed(jobs, each_uuid(map(_id, jobs)) if keys is None else keys, now)
    kinds = Counter(map(itemgetter(0), placed))
    tie = ("ties",) if any(kind.model.ties for kind in kinds) else ()
    await copy("job", _JOB, _bodies(placed))
    limited = _limited(placed) if tie else []
    if limited:
        await copy("limited", _LIMITED, _passing(limited))
    if lined := [one for one in limited if one[0].place is READY]:
        await _tell_lines(session, lined)
        await copy("ready_limited", (*_columns(READY), *tie, *_LINE), _standing(lined))
    for place in {kind.place for kind in kinds}:
        if some := _at(place, placed, kinds, in_lines=bool(lined)):
            await copy(_table(place, tie), (*_columns(place), *tie), _turns(some, place, tie))
    timed = {kind for kind in kinds if kind.deadline is not None}
    if timed:
        await copy("deadline", _DEADLINE, _deadlines(one for one in placed if one[0] in timed))
    await session.timed("telemetry/enqueued", *_counted(kinds))
    queues = {kind.model.queue for kind in kinds if kind.place is READY}
    due = timed or any(kind.place is JobState.SCHEDULED for kind in kinds)
    for payload in _wakeups(queues, bool(due)):
        await session.fetch("wakeups/wake", connections.options.channel, payload)


def _placed(jobs: Sequence[NewJob], keys: Iterable[bytes], now: datetime) -> list[Placed]:
    """In their order: ready jobs stand in line as they were written. Jobs of one kind mostly come
    one behind the other, and two tuples of the same objects are compared sooner than looked up."""
    last, kind = _kind(jobs[0]), JobKind(jobs[0], now)
    kinds, placed = {last: kind}, list[Placed]()
    for key, job in zip(keys, jobs, strict=True):
        shared = _kind(job)
        if shared != last:
            if shared not in kinds:
                kinds[shared] = JobKind(job, now)
            kind, last = kinds[shared], shared
        placed.append((kind, key, job))
    return placed


def _at(
    place: JobState, placed: list[Placed], kinds: Iterable[JobKind], *, in_lines: bool
) -> list[Placed]:
    """Those that the table of their place takes: ready jobs in lines have another."""
    if place is READY and in_lines:
        return [one for one in placed if one[0].place is place and not one[2].buckets]
    if all(kind.place is place for kind in kinds):
        return placed
    return [one for one in placed if one[0].place is place]


def _columns(place: JobState) -> tuple[str, ...]:
    return (*_TURN, *_TIME[place])


def _table(place: JobState, tie: tuple[str, ...]) -> str:
    """Jobs without ties go into the part of the ready jobs that has them alone."""
    return "ready_plain" if place is READY and not tie else place.value


def _wakeups(queues: set[str], timed: bool) -> list[str]:
    named = ",".join(sorted(queues)) if len(queues) <= MOST_QUEUES_NAMED else ""
    return [f"ready:{named}"] * bool(queues) + ["due"] * timed


def _counted(kinds: Mapping[JobKind, int]) -> Iterator[list[object]]:
    """How many jobs came to which place, in columns."""
    pairs = Counter[tuple[str, str, str]]()
    for kind, number in kinds.items():
        pairs[kind.model.queue, kind.model.task, kind.place.value] += number
    return map(list, zip(*((*pair, number) for pair, number in pairs.items()), strict=True))


def _bodies(placed: Iterable[Placed]) -> Iterator[bytes]:
    head = fields(len(_JOB))
    for kind, key, job in placed:
        yield head + key + text(job.args) + kind.body


def _body(model: NewJob, now: datetime) -> bytes:
    timeout = readable_part(model.policy).timeout
    told = (texts(value) if isinstance(value, tuple) else text(value) for value in _shared(model))
    return b"".join((double(timeout), moment(now), *told))


def _turns(placed: Iterable[Placed], place: JobState, tie: tuple[str, ...]) -> Iterator[bytes]:
    head = fields(len(_columns(place)) + len(tie))
    if not tie:
        return (head + key + kind.turn for kind, key, _ in placed)
    return (head + key + kind.turn + kind.ties for kind, key, _ in placed)


def _deadlines(placed: Iterable[Placed]) -> Iterator[bytes]:
    head = fields(len(_DEADLINE))
    return (head + key + moment(kind.deadline) for kind, key, _ in placed)


def _limited(placed: Iterable[Placed]) -> list[Lined]:
    return [
        (kind, key, _line(job.buckets, job.costs, job.weight))
        for kind, key, job in placed
        if job.buckets
    ]


def _passing(limited: Iterable[Lined]) -> Iterator[bytes]:
    head = fields(len(_LIMITED))
    return (head + key + line.passed for _, key, line in limited)


def _standing(lined: Iterable[Lined]) -> Iterator[bytes]:
    """Rows of ready jobs that stand in lines."""
    head = fields(len(_columns(READY)) + 1 + len(_LINE))
    return (head + key + kind.turn + kind.ties + line.stood for kind, key, line in lined)


async def _tell_lines(session: Session, lined: Iterable[Lined]) -> None:
    """Before the jobs get their numbers, since a line has to know the least of those."""
    weights = {(kind, line.buckets): line.weight for kind, _, line in lined}
    lines = (
        (kind.model.queue, kind.model.priority, kind.model.task, buckets, weight)
        for (kind, buckets), weight in weights.items()
    )
    await session.fetch("limits/come", *map(list, zip(*lines, strict=True)))


def _turn(model: NewJob) -> bytes:
    return text(model.queue) + integer(model.priority) + text(model.task)
