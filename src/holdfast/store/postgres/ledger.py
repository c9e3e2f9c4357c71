"""Recording plans: rows of the ledger, and in one transaction with them their jobs and cancels."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count

from holdfast.job.ids import JobId
from holdfast.job.policy import Retention
from holdfast.job.record import NewJob
from holdfast.job.text import MESSAGE_LIMIT, clean
from holdfast.job.ties import Tie
from holdfast.schedule.model import Decision, Plan
from holdfast.store.postgres.connection import Connections, Session
from holdfast.store.postgres.held_keys import keys_of, unless_held
from holdfast.store.postgres.inserting import insert_on
from holdfast.store.postgres.settling import orphan

FORMER_JOBS_CHECKED = 100
"""How many jobs of a scope's former plans are checked for an end when the scope gets a new one."""


async def record(connections: Connections, plans: Sequence[Plan]) -> list[bool]:
    """One transaction: a plan that another recorder has written starts and cancels nothing. It is
    sent again if its answer was lost; what the lost call wrote is then ours."""
    first: dict[tuple[str, str, datetime], int] = {}
    for index, plan in enumerate(plans):
        # In UTC, since the two passes of a repeated hour are equal in their own zone.
        first.setdefault((plan.schedule, plan.scope, plan.at.astimezone(UTC)), index)
    asked = list(first.values())
    tries = count()

    async def steps(session: Session) -> set[int]:
        again = next(tries) > 0
        refused = await _refused(session, plans)
        written = await _write(session, plans, [index for index in asked if index not in refused])
        ours = [plans[index] for index in sorted(written)]
        if jobs := [job for job in map(_job, ours) if job is not None]:
            await insert_on(session, connections, jobs)
        await _cancel(session, connections, ours)
        return written | (await _recorded(session, plans) if again else set())

    keys = keys_of([job for plan in plans if (job := _job(plan)) is not None])
    written = await unless_held(connections, keys, lambda: connections.run(steps, transaction=True))
    return [index in written for index in range(len(plans))]


async def _refused(session: Session, plans: Sequence[Plan]) -> set[int]:
    """Plans whose decision rests on live jobs that are others by now. The schedules are locked, so
    that no other recorder starts a job of theirs from here on."""
    based = [plan for plan in plans if plan.beside is not None]
    if not based:
        return set()
    names = sorted({plan.schedule for plan in based})
    await session.fetch("schedules/lock", names)
    live: dict[tuple[str, str], set[str]] = {}
    for name in names:
        scopes = list({plan.scope: None for plan in based if plan.schedule == name})
        for row in await session.fetch("schedules/unfinished", name, scopes):
            live.setdefault((name, row["scope"]), set()).add(str(row["job_id"]))
    return {
        index
        for index, plan in enumerate(plans)
        if plan.beside is not None
        and set(plan.beside) != live.get((plan.schedule, plan.scope), set())
    }


async def _write(session: Session, plans: Sequence[Plan], asked: Sequence[int]) -> set[int]:
    """Write the rows of the plans at these places; answers the places of those written."""
    new = [plans[index] for index in asked]
    jobs = [_job(plan) for plan in new]
    found = await session.timed(
        "schedules/record",
        [plan.schedule for plan in new],
        [plan.scope for plan in new],
        [plan.at for plan in new],
        [plan.decision.value for plan in new],
        [clean(plan.reason, MESSAGE_LIMIT) for plan in new],
        [None if job is None else job.id for job in jobs],
        [plan.moves_cursor for plan in new],
        FORMER_JOBS_CHECKED,
    )
    return {asked[row["place"]] for row in found}


async def _recorded(session: Session, plans: Sequence[Plan]) -> set[int]:
    """The plans that have a row with their own job: written by this call, or by an earlier try of
    it whose answer was lost."""
    jobs = [(index, plan, job) for index, plan in enumerate(plans) if (job := _job(plan))]
    found = await session.fetch(
        "schedules/recorded",
        [plan.schedule for _, plan, _ in jobs],
        [plan.scope for _, plan, _ in jobs],
        [plan.at for _, plan, _ in jobs],
        [job.id for _, _, job in jobs],
    )
    return {jobs[row["place"]][0] for row in found}


def _job(plan: Plan) -> NewJob | None:
    return plan.job if plan.decision is Decision.FIRED else None


async def _cancel(session: Session, connections: Connections, plans: Sequence[Plan]) -> None:
    """End the predecessors that wait, and ask those that run. A job that was handed back in between
    waits again, so the jobs that neither step found are looked for once more."""
    whys: dict[JobId, str] = {}
    for plan in plans:
        for job_id in plan.cancel:
            told = f"replaced by the plan of {plan.at.astimezone(UTC).isoformat()}"
            whys.setdefault(job_id, told)
    if whys:
        await _end_waiting(session, connections, whys)
    if whys:
        ids, told_of = sorted(whys), [whys[job_id] for job_id in sorted(whys)]
        channel = connections.options.channel
        for row in await session.timed("jobs/request_cancel", channel, ids, None, told_of):
            del whys[JobId(str(row["job_id"]))]
    if whys:
        await _end_waiting(session, connections, whys)


async def _end_waiting(session: Session, connections: Connections, whys: dict[JobId, str]) -> None:
    """End the jobs of `whys` that wait, and take them out of it."""
    ids = sorted(whys)
    values = (ids, [whys[job_id] for job_id in ids], Retention().other)
    ended = await session.timed("jobs/replace", *values)
    for row in ended:
        del whys[JobId(row["job_id"])]
    parents = [JobId(row["job_id"]) for row in ended if row["ties"] & Tie.PARENT]
    await orphan(session, connections.clock.override(), connections.options.channel, parents)
