"""How jobs come in on Postgres.

A batch takes one of four ways:

    copying       many jobs that nothing but time can hold up: COPY
    insert_one    a single plain job: one lean statement
    insert        any other jobs without unique keys: one general statement
    unique_keys   jobs with unique keys: several statements in one transaction

All but COPY also run on a caller's own connection (`joining.py`). They are coroutines over anything
that runs a script by its name.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import asyncpg

from holdfast.errors import RowRefused
from holdfast.job.ids import JobId
from holdfast.job.record import Inserted, NewJob
from holdfast.store.postgres.batch import Batch, RunsScripts, columns, fields
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.copying import can_copy, copy_jobs
from holdfast.store.postgres.held_keys import (
    KEY_TRY_SECONDS,
    keys_of,
    milliseconds,
    unless_held,
)
from holdfast.store.postgres.job_verbs import JobVerbs
from holdfast.store.postgres.unique_keys import insert_keyed


class PostgresInserting(JobVerbs):
    """See `holdfast.store.contract.inserting.Inserting` for what each verb promises."""

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        if not jobs:
            return []
        if any(job.unique is not None for job in jobs):
            return await self._insert_keyed(jobs)
        if can_copy(jobs) and await self._copied(jobs):
            return [Inserted(job.id, "created") for job in jobs]
        return await self._connections.run(
            lambda session: insert_on(session, self._connections, jobs),
            transaction=any(job.buckets for job in jobs),
        )

    async def _copied(self, jobs: Sequence[NewJob]) -> bool:
        """False if an id is there already: a repeated insert, whose jobs are checked one by one."""
        try:
            await self._connections.run(
                lambda session: copy_jobs(self._connections, session, jobs), transaction=True
            )
        except RowRefused as error:
            if isinstance(error.__cause__, asyncpg.UniqueViolationError):
                return False
            raise
        return True

    async def _insert_keyed(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        return await unless_held(
            self._connections,
            keys_of(jobs),
            lambda: self._connections.run(
                lambda session: insert_on(session, self._connections, jobs), transaction=True
            ),
        )


async def insert_on(
    on: RunsScripts,
    connections: Connections,
    jobs: Sequence[NewJob],
    key_wait: str | None = None,
) -> list[Inserted]:
    """Insert on this connection; jobs with unique keys or limits need a transaction around it.
    Answers what became of each job, in order."""
    if len(jobs) == 1 and jobs[0].is_plain and await _insert_one(on, connections, jobs[0]):
        return [Inserted(jobs[0].id, "created")]
    first: dict[JobId, NewJob] = {}
    for job in jobs:
        first.setdefault(job.id, job)
    wait = key_wait or milliseconds(KEY_TRY_SECONDS)
    batch = Batch(on, connections.clock.override(), connections.options.channel, wait)
    kept = await _keep_buckets(on, first.values()) if any(job.buckets for job in jobs) else set()
    await _insert_distinct(batch, list(first.values()))
    if absent := {job for job in kept if batch.answers[job].id != job}:
        await on.fetch("limits/drop", list(absent))
    return [batch.answer(job, first[job.id]) for job in jobs]


async def _keep_buckets(on: RunsScripts, jobs: Collection[NewJob]) -> set[JobId]:
    limited = [job for job in jobs if job.buckets]
    rows = await on.fetch(
        "limits/keep",
        [job.id for job in limited],
        [job.buckets for job in limited],
        [job.costs for job in limited],
        [job.weight for job in limited],
    )
    return {JobId(row[0]) for row in rows}


async def _insert_one(on: RunsScripts, connections: Connections, job: NewJob) -> bool:
    """False if the id is there already: then the general way says whose it is."""
    now, channel = connections.clock.override(), connections.options.channel
    return bool(await on.fetch("jobs/insert_one", now, channel, *fields(job)))


async def _insert_distinct(batch: Batch, jobs: list[NewJob]) -> None:
    """Insert jobs of distinct ids; those with unique keys need a longer way."""
    if all(job.unique is None for job in jobs):
        found = await batch.on.fetch("jobs/insert", batch.now, batch.channel, *columns(jobs))
        created_ids = {row[0] for row in found}
        await batch.acknowledge(jobs, [job for job in jobs if job.id not in created_ids])
    else:
        await insert_keyed(batch, jobs)
