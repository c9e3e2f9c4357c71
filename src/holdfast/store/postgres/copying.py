"""COPY for bulk: many jobs without unique keys, straight into their places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from holdfast.job import NewJob, decode_policy
from holdfast.store.postgres.connection import Connections, Line

COPY_FROM = 500
QUEUES_NAMED = 20

_JOB = (
    "id",
    "task",
    "args",
    "policy",
    "tags",
    "headers",
    "timeout",
    "deadline_at",
    "created_at",
)
_READY = ("job_id", "queue", "priority", "task", "since")
_SCHEDULED = ("job_id", "due_at", "queue", "priority", "task")


async def copy_jobs(connections: Connections, line: Line, jobs: Sequence[NewJob]) -> None:
    """Write the jobs in one transaction (the caller's), with one wakeup for all.

    Fails on an id that is already there: the caller then inserts with a check for each.
    """
    schema = connections.options.schema
    now: datetime = await line.fetchval(connections.scripts["now"], connections.clock.override())
    due = [_due(job, now) for job in jobs]
    deadlines = [_deadline(job, now) for job in jobs]

    async def copy(table: str, names: Iterable[str], records: list[tuple[Any, ...]]) -> None:
        if records:
            await line.copy_records_to_table(
                table, schema_name=schema, columns=list(names), records=records
            )

    await copy("job", _JOB, [_body(job, at, now) for job, at in zip(jobs, deadlines, strict=True)])
    await copy(
        "ready",
        _READY,
        [
            (job.id, job.queue, job.priority, job.task, now)
            for job, at in zip(jobs, due, strict=True)
            if at <= now
        ],
    )
    later = [
        (job.id, at, job.queue, job.priority, job.task)
        for job, at in zip(jobs, due, strict=True)
        if at > now
    ]
    await copy("scheduled", _SCHEDULED, later)
    dated = [(job.id, at) for job, at in zip(jobs, deadlines, strict=True) if at is not None]
    await copy("deadline", ("job_id", "at"), dated)
    queues = {job.queue for job, at in zip(jobs, due, strict=True) if at <= now}
    for payload in _wakeups(queues, bool(later or dated)):
        await line.fetch(connections.scripts["wake"], connections.options.channel, payload)


def _wakeups(queues: set[str], timed: bool) -> list[str]:
    named = ",".join(sorted(queues)) if len(queues) <= QUEUES_NAMED else ""
    return [f"ready:{named}"] * bool(queues) + ["due"] * timed


def _due(job: NewJob, now: datetime) -> datetime:
    return job.run_at or now + timedelta(seconds=job.delay or 0.0)


def _deadline(job: NewJob, now: datetime) -> datetime | None:
    if job.deadline_at is not None or job.deadline_in is None:
        return job.deadline_at
    return now + timedelta(seconds=job.deadline_in)


def _body(job: NewJob, deadline_at: datetime | None, now: datetime) -> tuple[Any, ...]:
    timeout = decode_policy(job.policy).timeout
    tags = list(job.tags)
    return (
        job.id,
        job.task,
        job.args,
        job.policy,
        tags,
        job.headers,
        timeout,
        deadline_at,
        now,
    )
