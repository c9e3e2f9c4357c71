"""The verbs of operators, in one table for the client, the command line and HTTP.

Each row on jobs says which states its verb applies to, how it changes jobs, and what it takes
beside them. `Client.apply` uses a row on one job, `Client.apply_all` on every job of a filter, with
a dry run that only counts. A row on a queue or a schedule applies to one name.

A verb that takes more than one value (`jobs.edit`, `queues.tune`, `schedules.create`, `edit`,
`trigger`, `backfill`) has no row: its form is its method.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.errors import BadOption, Refused
from holdfast.insights.actions import Noun, Verb
from holdfast.job import checks
from holdfast.job.checks import check_name, check_priority
from holdfast.job.ends import Cancelled
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.record import Job, Live
from holdfast.job.state import ENDED, LIVE, WAITING, JobState
from holdfast.store.contract.joining import JobsWithin
from holdfast.store.contract.records import jobs_of
from holdfast.store.contract.store import Store

CANCEL_ROUNDS = 10
"""How often a cancel reads a job again that moved between the read and the write."""

Change = Callable[[JobsWithin, Sequence[JobId], Any], Awaitable[list[JobId]]]
"""Applies a verb with its checked value to jobs; answers with the ids of the jobs it changed."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """The value that a verb takes beside its jobs. `check` raises `BadOption`, or answers with
    the value as the store takes it."""

    name: str
    about: str
    kind: type[int] | type[float] | type[str]
    check: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class JobVerb:
    """A verb on jobs.

    `fits` names in words the jobs that are in one of `states`. `by_default` are the states that
    a bulk call means if it names none; without it, all of `states`. A verb that does not refuse
    leaves a job alone that is in no such state: a job that has ended needs no cancel.
    """

    verb: Verb
    about: str
    done: str
    fits: str
    states: frozenset[JobState]
    change: Change
    by_default: frozenset[JobState] = frozenset()
    refuses: bool = True
    parameter: Parameter | None = None

    def checked(self, value: object) -> Any:
        """The value as the store takes it; raises `BadOption` if the verb takes another or none."""
        if self.parameter is not None:
            return self.parameter.check(value)
        if value is not None:
            raise BadOption(f"value of {self.verb}", "left out: the verb takes none", value)
        return None

    async def change_one(self, jobs: JobsWithin, job: Job, value: Any) -> bool:
        """Apply the verb to one job that was just read. Answers whether the job was changed;
        a verb that refuses raises `Refused` instead of answering False."""
        changed = await self.change(jobs, [job.id], value)
        if not changed and self.refuses:
            raise Refused(self._refusal(job))
        return bool(changed)

    def _refusal(self, job: Job) -> str:
        if job.state not in self.states:
            return f"job {job.id} is {job.state}: only {self.fits} can be {self.done}"
        if self.verb is Verb.REQUEUE and job.unique_key is not None:
            return f"job {job.id}: another job holds its unique key {job.unique_key!r}"
        return f"job {job.id} was {job.state} and has moved meanwhile: nothing was changed"


async def _cancel(jobs: JobsWithin, ids: Sequence[JobId], _: None) -> list[JobId]:
    """End waiting jobs and mark running ones. A job that moves between the read and the write is
    read again, at most `CANCEL_ROUNDS` times."""
    done: list[JobId] = []
    left = list(ids)
    for _round in range(CANCEL_ROUNDS):
        live = await jobs.live(left)
        if not live:
            break
        marked = await jobs.request_cancel(
            [job.id for job in live if job.state is JobState.RUNNING]
        )
        ended = await _end_waiting(jobs, [job for job in live if job.state in WAITING])
        reached = {*marked, *ended}
        done += reached
        left = [job.id for job in live if job.id not in reached]
    return done


async def _end_waiting(jobs: JobsWithin, waiting: Sequence[Live]) -> list[JobId]:
    verdicts = await jobs.finish([decide(job, Cancelled()) for job in waiting])
    return [verdict.id for verdict in verdicts if verdict.accepted]


def _queue(value: object) -> object:
    check_name("queue", value)
    return value


def _priority(value: object) -> object:
    check_priority(value)
    return value


def _due(value: object) -> float | datetime:
    if isinstance(value, datetime):
        return checks.moment("at", value)
    return checks.wait("delay", value)


CANCEL = JobVerb(
    Verb.CANCEL,
    "Cancel live jobs: waiting ones end now, running ones are told to.",
    "cancelled",
    "a live job",
    LIVE,
    _cancel,
    refuses=False,
)
REQUEUE = JobVerb(
    Verb.REQUEUE,
    "Run ended jobs again, with all their attempts.",
    "requeued",
    "an ended job",
    ENDED,
    lambda jobs, ids, _: jobs.requeue(ids),
    by_default=frozenset({JobState.FAILED}),
)
RESUME = JobVerb(
    Verb.RESUME,
    "Let suspended jobs go on now.",
    "resumed",
    "a suspended job",
    frozenset({JobState.SUSPENDED}),
    lambda jobs, ids, _: jobs.resume(ids),
)
RESCHEDULE = JobVerb(
    Verb.RESCHEDULE,
    "Make scheduled or ready jobs due after a delay, or at a time.",
    "rescheduled",
    "a ready or scheduled job",
    frozenset({JobState.READY, JobState.SCHEDULED}),
    lambda jobs, ids, due: jobs.reschedule(ids, due),
    by_default=frozenset({JobState.SCHEDULED}),
    parameter=Parameter("due", "Seconds from now, or an aware datetime.", float, _due),
)
DELETE = JobVerb(
    Verb.DELETE,
    "Remove ended jobs with their history.",
    "deleted",
    "an ended job",
    ENDED,
    lambda jobs, ids, _: jobs.delete(ids),
)
MOVE = JobVerb(
    Verb.MOVE,
    "Put waiting jobs in another queue.",
    "moved",
    "a waiting job",
    WAITING,
    lambda jobs, ids, queue: jobs.move(ids, queue),
    parameter=Parameter("queue", "The queue to put them in.", str, _queue),
)
REPRIORITISE = JobVerb(
    Verb.REPRIORITISE,
    "Give waiting jobs another priority.",
    "reprioritised",
    "a waiting job",
    WAITING,
    lambda jobs, ids, priority: jobs.reprioritise(ids, priority),
    parameter=Parameter("priority", "The new priority: lower runs first.", int, _priority),
)

JOB_VERBS: Mapping[Verb, JobVerb] = {
    row.verb: row for row in (REQUEUE, CANCEL, RESUME, RESCHEDULE, DELETE, MOVE, REPRIORITISE)
}


@dataclass(frozen=True, slots=True)
class NameVerb:
    """A verb on one queue, task or schedule. `change` answers with the names that it changed; on
    queues it answers None, because a queue that is absent is made. A verb that `destroys` is
    asked about first where a person can answer."""

    noun: Noun
    verb: Verb
    about: str
    done: str
    change: Callable[[Store, Sequence[str]], Awaitable[Sequence[str] | None]]
    destroys: bool = False


_NAME_ROWS = (
    NameVerb(
        Noun.QUEUES,
        Verb.PAUSE,
        "Stop claims from queues; running jobs go on.",
        "paused",
        lambda store, names: store.queues.pause(names),
    ),
    NameVerb(
        Noun.QUEUES,
        Verb.RESUME,
        "Allow claims again, and end any cool-down.",
        "resumed",
        lambda store, names: store.queues.resume(names),
    ),
    NameVerb(
        Noun.TASKS,
        Verb.PAUSE,
        "Stop claims of jobs of these tasks, in every queue; running jobs go on.",
        "paused",
        lambda store, names: store.queues.pause([jobs_of(name) for name in names]),
    ),
    NameVerb(
        Noun.TASKS,
        Verb.RESUME,
        "Allow claims of jobs of these tasks again.",
        "resumed",
        lambda store, names: store.queues.resume([jobs_of(name) for name in names]),
    ),
    NameVerb(
        Noun.SCHEDULES,
        Verb.PAUSE,
        "Record plans as skipped instead of firing them.",
        "paused",
        lambda store, names: store.schedules.pause(names),
    ),
    NameVerb(
        Noun.SCHEDULES,
        Verb.RESUME,
        "Fire plans again; plans of the pause are not made up for.",
        "resumed",
        lambda store, names: store.schedules.resume(names),
    ),
    NameVerb(
        Noun.SCHEDULES,
        Verb.DELETE,
        "Remove schedules with their history; jobs they started stay.",
        "deleted",
        lambda store, names: store.schedules.delete(names),
        destroys=True,
    ),
)
NAME_VERBS: Mapping[tuple[Noun, Verb], NameVerb] = {(row.noun, row.verb): row for row in _NAME_ROWS}
