"""Inserting jobs: the steps, apart from whose connection runs them.

`insertion` is a generator of (script, values) that is sent the rows of each.
One set of steps thus serves our own pool, a caller's async connection and a
caller's sync connection. Its steps belong in one transaction.

Unique keys: `insert_unique` takes the keys that are free and leaves the rest
locked by this transaction; `holders` then shows, with a newer snapshot, who has
them and where. What follows from that is decided here, and a key that became
free in between is simply tried again.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from holdfast.errors import StoreUnavailable
from holdfast.job.ids import JobId
from holdfast.job.policy import Retention, readable_part
from holdfast.job.record import Inserted, NewJob
from holdfast.job.state import WAITING, JobState
from holdfast.job.unique import Unique

# What a key's holder may be pushed out of, and what a new job begins in.
PUSHABLE = frozenset({JobState.READY.value, JobState.SCHEDULED.value})
REPLACEABLE = frozenset(state.value for state in WAITING)
BORN_IN = frozenset({JobState.READY, JobState.SCHEDULED, JobState.BLOCKED})
ROUNDS = 20


class Step(NamedTuple):
    """One statement: the verb of its script, and the values of its parameters."""

    verb: str
    values: tuple[object, ...]


Rows = Sequence[Any]
Steps = Generator[Step, Rows, None]


def insertion(
    jobs: Sequence[NewJob], now: datetime | None, channel: str, wait: str
) -> Generator[Step, Rows, list[Inserted]]:
    """All steps for one batch; returns what became of each job, in order. `wait` bounds the
    wait for a key that an open transaction holds."""
    first: dict[JobId, NewJob] = {}
    for job in jobs:
        first.setdefault(job.id, job)
    waiting, answers = list(first.values()), Answers({}, {})
    if len(waiting) == 1 and waiting[0].is_plain:
        done = yield Step("jobs/insert_one", (now, channel, *_fields(waiting[0])))
        yield from answers.acknowledge(waiting, [] if done else waiting)
    elif all(job.unique is None for job in waiting):
        done = yield Step("jobs/insert", (now, channel, *columns(waiting)))
        created = {row[0] for row in done}
        yield from answers.acknowledge(waiting, [j for j in waiting if j.id not in created])
    while waiting and len(answers.told) < len(first):
        distinct, rest = _one_of_each_key(waiting)
        yield from _Keys(now, channel, wait, answers).insert(distinct)
        waiting = _answer_twins(distinct, rest, answers.told)
    return [answers.to(job, first[job.id]) for job in jobs]


@dataclass(frozen=True, slots=True)
class Answers:
    """What became of the jobs of a batch, and whose the ids are that were there before."""

    told: dict[JobId, Inserted]
    owners: dict[JobId, tuple[str, str]]

    def acknowledge(self, jobs: Sequence[NewJob], there: Sequence[NewJob]) -> Steps:
        """All were created but those that were `there` already: their bodies say whose they are."""
        self.told.update((job.id, Inserted(job.id, "created")) for job in jobs)
        if not there:
            return
        found = yield Step("jobs/calls", ([job.id for job in there],))
        self.owners.update((JobId(row[0]), (row[1], row[2])) for row in found)
        for job in there:
            if job.id in self.owners:
                self.told[job.id] = job.repeats(*self.owners[job.id])

    def to(self, job: NewJob, first: NewJob) -> Inserted:
        """A job that shares its id with one before it in the batch repeats that one, or what was
        there before both."""
        if job is first:
            return self.told[job.id]
        again = job.repeats(*self.owners.get(job.id, (first.task, first.args)))
        return again if again.how == "taken" or job.id in self.owners else self.told[job.id]


def insertion_within(
    jobs: Sequence[NewJob], now: datetime | None, channel: str, wait: str
) -> Generator[Step, Rows, list[Inserted]]:
    """The same in a caller's transaction, whose own bound on waiting counts if it has one and
    is afterwards what it was before."""
    if all(job.unique is None for job in jobs):
        return (yield from insertion(jobs, now, channel, wait))
    [(own, _)] = yield Step("keys/lock_timeout", (None,))
    answers = yield from insertion(jobs, now, channel, wait if own == "0" else own)
    yield Step("keys/lock_timeout", (own,))
    return answers


def _fields(job: NewJob) -> tuple[object, ...]:
    """Parameters 3 to 11 of insert_one.sql."""
    timeout = readable_part(job.policy).timeout
    tags = array_literal(job.tags)
    return (
        job.id,
        job.task,
        job.queue,
        job.priority,
        job.args,
        job.policy,
        tags,
        job.headers,
        timeout,
    )


class _Keys:
    """Inserts jobs of distinct keys, and settles what to do about the keys that are held."""

    def __init__(self, now: datetime | None, channel: str, wait: str, answers: Answers) -> None:
        self.now = now
        self.channel = channel
        self.wait = wait
        self.answers = answers
        self.replacing: set[JobId] = set()

    def insert(self, jobs: list[NewJob]) -> Steps:
        waiting = {_key(job): job for job in jobs}
        for _ in range(ROUNDS):
            done = yield self._take(list(waiting.values()))
            yield from self._settle_inserted(waiting, {row[0]: row[2] for row in done})
            if not waiting:
                return
            holders = yield Step("keys/holders", ([_unique(job).key for job in waiting.values()],))
            yield from self._judge(waiting, holders)
            if not waiting:
                return
        raise StoreUnavailable("unique keys kept changing hands; try again")

    def _settle_inserted(self, waiting: dict[str, NewJob], inserted: dict[str, bool]) -> Steps:
        """Those in the store now, from this step or (True) from an insert before; a job without
        a key is always one of them."""
        there = [job for job in waiting.values() if inserted.get(job.id)]
        done = [job for job in waiting.values() if job.id in inserted or job.unique is None]
        yield from self.answers.acknowledge(done, there)
        for job in done:
            if job.id in self.replacing and not inserted.get(job.id):
                self.answers.told[job.id] = Inserted(job.id, "replaced")
            del waiting[_key(job)]

    def _take(self, jobs: list[NewJob]) -> Step:
        keys = [job.unique and job.unique.key for job in jobs]
        masks = [job.unique and array_literal(sorted(job.unique.states)) for job in jobs]
        values = (self.now, self.channel, *columns(jobs), keys, masks, self.wait)
        return Step("jobs/insert_unique", values)

    def _settle(self, waiting: dict[str, NewJob], job: NewJob, answer: Inserted) -> None:
        self.answers.told[job.id] = answer
        del waiting[_key(job)]

    def _judge(self, waiting: dict[str, NewJob], holders: Rows) -> Steps:
        """Settle each key by where its holder is; one whose holder let go stays waiting."""
        replaced: dict[str, NewJob] = {}
        pushed: dict[str, NewJob] = {}
        for key, holder, state, holds in holders:
            job = waiting[_marked(key)]
            conflict = _unique(job).on_conflict
            if holder == job.id:
                self._settle(waiting, job, Inserted(job.id, "created"))
            elif not holds:
                continue
            elif conflict == "replace" and state in REPLACEABLE:
                replaced[holder] = job
            elif conflict == "debounce" and state in PUSHABLE:
                pushed[holder] = job
            else:
                self._settle(waiting, job, Inserted(JobId(holder), "existing"))
        if replaced:
            yield from self._replace(replaced)
        if pushed:
            yield from self._push(waiting, pushed)

    def _replace(self, replaced: dict[str, NewJob]) -> Steps:
        """End the holders; their keys are free for the next round. One that started to run
        in between is met again there, and stands."""
        holders = sorted(replaced)
        by = [replaced[holder].id for holder in holders]
        gone = yield Step("jobs/replace", (self.now, holders, by, Retention().other))
        self.replacing.update(replaced[row[0]].id for row in gone)

    def _push(self, waiting: dict[str, NewJob], pushed: dict[str, NewJob]) -> Steps:
        """Make the holders due at the new call's time (a blocked call has none: now); their bodies
        stay."""
        holders = sorted(pushed)
        calls = [pushed[holder] for holder in holders]
        run_at = [None if call.blocked else call.run_at for call in calls]
        delays = [0.0 if call.blocked else call.delay or 0.0 for call in calls]
        moved = yield Step("jobs/reschedule", (self.now, self.channel, holders, run_at, delays))
        for row in moved:
            self._settle(waiting, pushed[row[0]], Inserted(JobId(row[0]), "debounced"))


def _one_of_each_key(jobs: list[NewJob]) -> tuple[list[NewJob], list[NewJob]]:
    """The first job of every key, and the rest: one statement cannot meet a key twice."""
    first: dict[str, NewJob] = {}
    rest = [job for job in jobs if first.setdefault(_key(job), job) is not job]
    return list(first.values()), rest


def _answer_twins(
    first: list[NewJob], rest: list[NewJob], answers: dict[JobId, Inserted]
) -> list[NewJob]:
    """Jobs of one batch that only want to keep what the first of their key got need no
    further look, unless that one is born outside its own mask."""
    settled = {
        job.unique.key: answers[job.id].id
        for job in first
        if job.unique is not None and job.unique.states >= BORN_IN
    }
    again = []
    for job in rest:
        unique = _unique(job)
        if unique.on_conflict == "keep" and unique.key in settled:
            answers[job.id] = Inserted(settled[unique.key], "existing")
        else:
            again.append(job)
    return again


def columns(jobs: Sequence[NewJob]) -> tuple[list[Any], ...]:
    """Parameters 3 to 17 of insert.sql: one array per column."""
    return (
        [job.id for job in jobs],
        [job.task for job in jobs],
        [job.queue for job in jobs],
        [job.priority for job in jobs],
        [job.args for job in jobs],
        [job.policy for job in jobs],
        [array_literal(job.tags) for job in jobs],
        [job.headers for job in jobs],
        [readable_part(job.policy).timeout for job in jobs],
        [job.run_at for job in jobs],
        [job.delay for job in jobs],
        [job.deadline_at for job in jobs],
        [job.deadline_in for job in jobs],
        [job.ties for job in jobs],
        [job.blocked for job in jobs],
    )


def array_literal(texts: Sequence[str]) -> str:
    r"""One array as text, because arrays of unequal length cannot travel as one parameter.

    >>> array_literal(["a", 'b"c', "d\\e"])
    '{"a","b\\"c","d\\\\e"}'
    """
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return "{" + ",".join(f'"{text}"' for text in quoted) + "}"


def _unique(job: NewJob) -> Unique:
    assert job.unique is not None
    return job.unique


def _key(job: NewJob) -> str:
    """What two jobs of a batch may share; a job without a key shares nothing."""
    return f"id {job.id}" if job.unique is None else _marked(job.unique.key)


def _marked(key: str) -> str:
    """Keys are free text: marked, none can be mistaken for an id."""
    return f"key {key}"
