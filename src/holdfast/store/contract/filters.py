"""Which jobs are meant: by what they are, where they are and what became of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from holdfast.job.ids import JobId, WorkerId
from holdfast.job.serving import choice_of, is_pattern
from holdfast.job.state import ENDED, JobState
from holdfast.store.contract.telemetry import Tally

Scalar = str | int | float | bool | None
"""A JSON value that is no list and no object."""


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are meant. Every field narrows; an empty field means any.

    A name in `queues` or `tasks` that ends in `*` means every name that begins so. A job must have
    all of `tags`. `args` has values by their paths, such as `order.id`. `worker` holds the job, or
    held it when it ended. `fingerprint` is that of the error with which the job failed for good.
    `…_after` includes the moment, `…_before` does not.
    """

    ids: tuple[JobId, ...] = ()
    states: frozenset[JobState] = frozenset()
    queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    args: dict[str, Scalar] = {}
    worker: WorkerId | None = None
    fingerprint: str | None = None
    schedule: str | None = None
    priority: int | None = None
    priority_over: int | None = None
    priority_under: int | None = None
    attempts_over: int | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    finished_after: datetime | None = None
    finished_before: datetime | None = None
    error_text: str | None = None

    @property
    def is_tallied(self) -> bool:
        """Whether the tallies can answer it: it names only states, queues and tasks."""
        others = (name for name in self.__struct_fields__ if name not in TALLIED)
        return all(is_any(getattr(self, name)) for name in others)

    @property
    def names_tallied(self) -> bool:
        """Whether the tallies can say that it means no job, or what its patterns stand for."""
        return bool(self.states or self.queues or self.tasks)

    @property
    def states_possible(self) -> frozenset[JobState]:
        """The states that a job can be in which it means."""
        states = self.states or frozenset(JobState)
        if self.finished_after is not None or self.finished_before is not None:
            states &= ENDED
        if self.worker is not None:
            states &= ENDED | {JobState.RUNNING}
        if self.fingerprint is not None:
            states &= {JobState.FAILED}
        return states

    @property
    def queues_by_name(self) -> tuple[str, ...]:
        """The queues it names, or none if a pattern is among them."""
        return () if any(map(is_pattern, self.queues)) else self.queues

    def counted(self, tallies: Iterable[Tally]) -> dict[JobState, int]:
        """How many jobs of the tallies are in the states, queues and tasks that it names."""
        found: dict[JobState, int] = {}
        for tally in tallies:
            if (
                (not self.states or tally.state in self.states)
                and (not self.queues or choice_of(tally.queue, self.queues))
                and (not self.tasks or choice_of(tally.task, self.tasks))
            ):
                found[tally.state] = found.get(tally.state, 0) + tally.jobs
        return found

    def spelled_out(self, tallies: Iterable[Tally]) -> JobFilter:
        """The same with names instead of patterns: those that the tallies have jobs of."""
        if not any(map(is_pattern, (*self.queues, *self.tasks))):
            return self
        there = list(tallies)
        return msgspec.structs.replace(
            self,
            queues=_fitting({tally.queue for tally in there}, self.queues),
            tasks=_fitting({tally.task for tally in there}, self.tasks),
        )


TALLIED = frozenset({"states", "queues", "tasks"})
"""The fields of a JobFilter that the tallies know of."""


def is_any(value: object) -> bool:
    """Whether a field of a JobFilter that has this value narrows nothing."""
    return value is None or value in ("", (), [], {}, frozenset())


def _fitting(names: Iterable[str], choices: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(name for name in names if choice_of(name, choices))) if choices else ()
