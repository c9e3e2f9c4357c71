"""Recording plans: rows of the ledger, and in the same transaction what they start and cancel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any

from holdfast.job.ids import JobId
from holdfast.job.policy import Retention
from holdfast.job.record import NewJob
from holdfast.job.text import MESSAGE_LIMIT, clean
from holdfast.schedule.model import Decision, Plan
from holdfast.store import borrowing
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.inserting import insertion
from holdfast.store.postgres.keys import A_TRY, milliseconds
from holdfast.store.postgres.pool import Line

LOOKED_AT = 100  # jobs of a scope's former plans that are looked at when it gets a new one


async def record(connections: Connections, plans: Sequence[Plan]) -> list[bool]:
    """One transaction: a plan that another recorder has written starts and cancels nothing. It is
    sent again if its answer was lost; what the lost call wrote is then ours."""
    first: dict[tuple[str, str, datetime], int] = {}
    for index, plan in enumerate(plans):
        # In UTC, since the two passes of a repeated hour are equal in their own zone.
        first.setdefault((plan.schedule, plan.scope, plan.at.astimezone(UTC)), index)
    asked = list(first.values())
    tries = count()

    async def steps(line: Line) -> set[int]:
        again = next(tries) > 0
        refused = await _refused(connections, line, plans)
        open_to_us = [index for index in asked if index not in refused]
        columns = _columns([plans[index] for index in open_to_us])
        now = connections.clock.override()
        rows = await line.fetch(connections.scripts["schedules/record"], now, *columns, LOOKED_AT)
        written = {open_to_us[row[0]] for row in rows}
        ours = [plans[index] for index in sorted(written)]
        await _start(connections, line, ours)
        await _cancel(connections, line, ours)
        return written | (await _recorded(connections, line, plans) if again else set())

    written = await connections.run(steps, transaction=True)
    return [index in written for index in range(len(plans))]


async def _refused(connections: Connections, line: Line, plans: Sequence[Plan]) -> set[int]:
    """Plans whose decision rests on jobs that are others by now; from here on none begins."""
    based = [plan for plan in plans if plan.beside is not None]
    if not based:
        return set()
    names = sorted({plan.schedule for plan in based})
    await line.fetch(connections.scripts["schedules/lock"], names)
    live: dict[tuple[str, str], set[str]] = {}
    for name in names:
        scopes = list({plan.scope: None for plan in based if plan.schedule == name})
        for row in await line.fetch(connections.scripts["schedules/unfinished"], name, scopes):
            live.setdefault((name, row["scope"]), set()).add(str(row["job_id"]))
    return {
        index
        for index, plan in enumerate(plans)
        if plan.beside is not None
        and set(plan.beside) != live.get((plan.schedule, plan.scope), set())
    }


async def _recorded(connections: Connections, line: Line, plans: Sequence[Plan]) -> set[int]:
    """The plans that have a row with their own job: written by this call, or by one like it
    whose answer was lost."""
    jobs = [(index, plan, job) for index, plan in enumerate(plans) if (job := _job(plan))]
    rows = await line.fetch(
        connections.scripts["schedules/recorded"],
        [plan.schedule for _, plan, _ in jobs],
        [plan.scope for _, plan, _ in jobs],
        [plan.at for _, plan, _ in jobs],
        [job.id for _, _, job in jobs],
    )
    return {jobs[row[0]][0] for row in rows}


def _columns(plans: Sequence[Plan]) -> tuple[list[Any], ...]:
    """Parameters 2 to 8 of schedules_record.sql: one array per column."""
    jobs = [_job(plan) for plan in plans]
    return (
        [plan.schedule for plan in plans],
        [plan.scope for plan in plans],
        [plan.at for plan in plans],
        [plan.decision.value for plan in plans],
        [clean(plan.reason, MESSAGE_LIMIT) for plan in plans],
        [None if job is None else job.id for job in jobs],
        [plan.moves_cursor for plan in plans],
    )


def _job(plan: Plan) -> NewJob | None:
    return plan.job if plan.decision is Decision.FIRED else None


async def _start(connections: Connections, line: Line, plans: Iterable[Plan]) -> None:
    jobs = [job for job in map(_job, plans) if job is not None]
    if not jobs:
        return
    now, channel = connections.clock.override(), connections.options.channel
    walk = insertion(jobs, now, channel, milliseconds(A_TRY))
    await borrowing.drive(
        walk, lambda step: line.fetch(connections.scripts[step.verb], *step.values)
    )


async def _cancel(connections: Connections, line: Line, plans: Iterable[Plan]) -> None:
    """End the predecessors that wait, and ask those that run. One that was handed back in
    between waits again, so what neither found is looked for once more."""
    by: dict[JobId, str] = {}
    for plan in plans:
        for job_id in plan.cancel:
            by.setdefault(job_id, f"the plan of {plan.at.astimezone(UTC).isoformat()}")
    now, channel = connections.clock.override(), connections.options.channel

    async def replace() -> None:
        ids = sorted(by)
        values = (now, ids, [by[job_id] for job_id in ids], Retention().other)
        for row in await line.fetch(connections.scripts["jobs/replace"], *values):
            del by[JobId(row[0])]

    if by:
        await replace()
    if by:
        asked = await line.fetch(
            connections.scripts["jobs/request_cancel"], now, channel, sorted(by)
        )
        for row in asked:
            del by[JobId(str(row[0]))]
    if by:
        await replace()
