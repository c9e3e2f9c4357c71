"""A batch of new jobs: where it is written, its values, and what became of each job."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from holdfast.job.ids import JobId
from holdfast.job.policy import readable_part
from holdfast.job.record import Inserted, NewJob
from holdfast.store.postgres.body import body_arrays, body_values


class RunsScripts(Protocol):
    """One connection, ours or a caller's, inside one transaction."""

    def fetch(self, verb: str, *values: object) -> Awaitable[Sequence[Any]]: ...


class Batch(msgspec.Struct):
    """Where a batch is written, and what became of its jobs so far.

    `key_wait` bounds the wait for a unique key that an open transaction holds, in the server's own
    notation. `owners` tells the task and arguments of ids that were in the store before.
    """

    on: RunsScripts
    now: datetime | None
    channel: str
    key_wait: str
    answers: dict[JobId, Inserted] = msgspec.field(default_factory=dict)
    owners: dict[JobId, tuple[str, str]] = msgspec.field(default_factory=dict)

    async def acknowledge(self, jobs: Sequence[NewJob], there: Sequence[NewJob]) -> None:
        """All were created but those that were `there` already: their bodies say whose they are."""
        self.answers.update((job.id, Inserted(job.id, "created")) for job in jobs)
        if not there:
            return
        for row in await self.on.fetch("jobs/calls", [job.id for job in there]):
            self.owners[JobId(row[0])] = (row[1], row[2])
        for job in there:
            if job.id in self.owners:
                self.answers[job.id] = job.repeats(*self.owners[job.id])

    def answer(self, job: NewJob, first: NewJob) -> Inserted:
        """What became of `job`, where `first` is the first job of the batch with the same id. A
        later one repeats the first, or the job that was in the store before both."""
        if job is first:
            return self.answers[job.id]
        again = job.repeats(*self.owners.get(job.id, (first.task, first.args)))
        return again if again.how == "taken" or job.id in self.owners else self.answers[job.id]


def fields(job: NewJob) -> tuple[object, ...]:
    """The parameters of insert_one.sql from the third on."""
    timeout = readable_part(job.policy).timeout
    return (job.id, job.task, job.queue, job.priority, timeout, *body_values(job))


def columns(jobs: Sequence[NewJob], *keyed: object) -> tuple[object, ...]:
    """The parameters of insert.sql from the third on, one array per column; or those of
    insert_unique.sql, with what it is `keyed` by."""
    return (
        [job.id for job in jobs],
        [job.task for job in jobs],
        [job.queue for job in jobs],
        [job.priority for job in jobs],
        [readable_part(job.policy).timeout for job in jobs],
        [job.run_at for job in jobs],
        [job.delay for job in jobs],
        [job.deadline_at for job in jobs],
        [job.deadline_in for job in jobs],
        [job.ties for job in jobs],
        [job.blocked for job in jobs],
        *keyed,
        *body_arrays(jobs),
    )
