"""What a row of the table of verbs says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.errors import BadOption, Refused
from holdfast.insights.actions import Noun, Verb
from holdfast.job.ids import JobId
from holdfast.job.record import Job
from holdfast.job.state import UNDONE, JobState
from holdfast.job.ties import Tie
from holdfast.store.contract.joining import JobsWithin
from holdfast.store.contract.store import Store

Change = Callable[[JobsWithin, Sequence[JobId], Any, str | None], Awaitable[list[JobId]]]
"""Applies a verb with its checked value to jobs; the last value says for whom. Answers with the ids
of the jobs it changed."""


def _nothing(job: Job) -> None:
    """An undo needs to know no more than which job it was."""


def _never(job: Job, value: Any) -> bool:
    """The change always shows in the state or the fence of a job."""
    return False


def _as_given(value: Any) -> Any:
    """The method that carries the verb out checks the value."""
    return value


class Parameter(msgspec.Struct, frozen=True):
    """A value that a verb takes beside its target. `check` raises `BadOption`, or answers with
    the value as the store takes it."""

    name: str
    about: str
    kind: type
    check: Callable[[Any], Any] = _as_given


class Scope(StrEnum):
    """What a principal must be allowed to use a verb."""

    OPERATE = "operate"
    ADMIN = "admin"


class OperatorVerb(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table.

    `done` is the verb's participle. `many`: there is a form for everything that matches a filter.
    `undo` is the verb on the same noun that takes the change back, None where nothing can. A verb
    with `danger` removes what cannot be brought back: a person is asked first.
    """

    noun: Noun
    verb: Verb
    about: str
    done: str
    arguments: tuple[Parameter, ...] = ()
    many: bool = False
    undo: Verb | None = None
    danger: bool = False
    scope: Scope = Scope.OPERATE

    @property
    def word(self) -> str:
        """What the audit and the events call it."""
        return f"{self.noun}.{self.verb}"


class JobVerb(OperatorVerb, frozen=True, kw_only=True):
    """A verb on jobs, of one value at most.

    `fits` names in words the jobs that are in one of `states`. `by_default` are the states that
    a bulk call means if it names none; without it, all of `states`. A verb that does not refuse
    leaves a job alone that is in no such state: a job that has ended needs no cancel.

    `applied(job, value)` judges a job that is no longer as it was before the change, None if it is
    gone: whether the change explains that. `marked(job, value)` judges a job whose state and fence
    are as before: whether something else shows that it was changed. `was` is what an undo has to
    know of a job.
    """

    noun: Noun = Noun.JOBS
    many: bool = True
    fits: str
    states: frozenset[JobState]
    change: Change
    by_default: frozenset[JobState] = frozenset()
    refuses: bool = True
    applied: Callable[[Job | None, Any], bool]
    marked: Callable[[Job, Any], bool] = _never
    was: Callable[[Job], Any] = _nothing

    @property
    def parameter(self) -> Parameter | None:
        return self.arguments[0] if self.arguments else None

    def checked(self, value: object) -> Any:
        """The value as the store takes it; raises `BadOption` if the verb takes another or none."""
        if self.parameter is not None:
            return self.parameter.check(value)
        if value is not None:
            raise BadOption(f"value of {self.verb}", "left out: the verb takes none", value)
        return None

    async def change_one(
        self, jobs: JobsWithin, job: Job, value: Any, by: str | None = None
    ) -> bool:
        """Apply the verb to one job that was just read. Answers whether the job was changed;
        a verb that refuses raises `Refused` instead of answering False."""
        changed = await self.change(jobs, [job.id], value, by)
        if not changed and self.refuses:
            raise Refused(self.refusal(job))
        return bool(changed)

    def refusal(self, job: Job) -> str:
        """Why a job that was read so could not be changed."""
        if job.state not in self.states:
            return f"job {job.id} is {job.state}: only {self.fits} can be {self.done}"
        if job.state in UNDONE and job.ties & Tie.UNDO:
            again = self.verb is Verb.REQUEUE
            why = (
                "its steps are undone; enqueue a new one" if again else "its steps are to be undone"
            )
            return f"job {job.id} is {job.state} and cannot be {self.done}: {why}"
        if self.verb is Verb.REQUEUE and job.unique_key is not None:
            holder = "another job, or a transaction that is still open,"
            return f"job {job.id}: {holder} holds its unique key"
        return f"job {job.id} was {job.state} and has moved meanwhile: nothing was changed"


class NameVerb(OperatorVerb, frozen=True, kw_only=True):
    """A verb on one queue, task or schedule. `change` answers with the names that it changed; on
    queues it answers None, because a queue that is absent is made."""

    change: Callable[[Store, Sequence[str]], Awaitable[Sequence[str] | None]]
