"""Recording plans: each partition's in one script, with the jobs they start and cancel.

A script sees one partition. So a plan's job must lie where its schedule does, and ids of such jobs
are minted beside the schedule's name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC

from holdfast.errors import BadOption, StoreUnavailable
from holdfast.job.ids import JobId
from holdfast.job.record import NewJob
from holdfast.job.text import MESSAGE_LIMIT, clean
from holdfast.schedule.model import Decision, Plan
from holdfast.store.valkey.connection import Connections, bites
from holdfast.store.valkey.failures import line_lost
from holdfast.store.valkey.inserting import job_row, require_beside_keys
from holdfast.store.valkey.layout import PlanRow
from holdfast.store.valkey.ledger import home, instant

BITE = 500
ROUND = 8_000


async def record(connections: Connections, plans: Sequence[Plan]) -> list[bool]:
    """Of two plans for one row the first is asked for."""
    first: dict[tuple[str, str, str], int] = {}
    for index, plan in enumerate(plans):
        first.setdefault((plan.schedule, plan.scope, instant(plan.at)), index)
    asked = list(first.values())
    _require_beside_schedules(connections, [plans[index] for index in asked])
    written: set[int] = set()
    for some in bites(asked, ROUND):
        written |= await _record_round(connections, plans, some)
    return [index in written for index in range(len(plans))]


def _require_beside_schedules(connections: Connections, plans: Sequence[Plan]) -> None:
    if connections.options.partitions == 1:
        return
    jobs = [(plan, job) for plan in plans if (job := _job(plan)) is not None]
    require_beside_keys(connections, [job for _, job in jobs])
    for plan, job in jobs:
        _require_beside(connections, plan, "a job", job.id)
    for plan in plans:
        for job_id in plan.cancel:
            _require_beside(connections, plan, "a predecessor to cancel", job_id)


def _require_beside(connections: Connections, plan: Plan, what: str, job_id: JobId) -> None:
    if connections.partition_of(job_id) != home(connections, plan.schedule):
        raise BadOption(
            f"id of {what} of the schedule {plan.schedule!r}",
            "one that new_job_id(beside=schedule) mints: in a store of several partitions a plan's "
            "job lies where its schedule does",
            job_id,
        )


async def _record_round(
    connections: Connections, plans: Sequence[Plan], asked: Sequence[int]
) -> set[int]:
    base = await connections.arrivals(1)
    places: dict[int, list[int]] = {}
    for index in asked:
        places.setdefault(home(connections, plans[index].schedule), []).append(index)
    numbers = {index: number for number, index in enumerate(asked)}
    written: set[int] = set()
    for partition, mine in places.items():
        for some in bites(mine, BITE):
            rows = [_row(plans[index], numbers[index]) for index in some]
            answer = await _record(connections, partition, {"arrival": base, "plans": rows})
            written |= {index for index, wrote in zip(some, answer, strict=True) if wrote}
    return written


async def _record(
    connections: Connections, partition: int, given: Mapping[str, object]
) -> list[int]:
    """Repeated once if the line is lost, and then told so: what the lost call wrote is ours."""
    try:
        return await _call(connections, partition, {**given, "repeated": ""})
    except StoreUnavailable as error:
        cause = error.__cause__
        if not (isinstance(cause, Exception) and line_lost(cause)):
            raise
    return await _call(connections, partition, {**given, "repeated": "1"})


async def _call(connections: Connections, partition: int, given: Mapping[str, object]) -> list[int]:
    answer: list[int] = await connections.call("schedules/record", partition, given, again=False)
    return answer


def _job(plan: Plan) -> NewJob | None:
    return plan.job if plan.decision is Decision.FIRED else None


def _row(plan: Plan, number: int) -> PlanRow:
    job = _job(plan)
    return PlanRow(
        plan.schedule,
        plan.scope,
        instant(plan.at),
        plan.decision.value,
        clean(plan.reason, MESSAGE_LIMIT),
        not plan.moves_cursor,
        False if job is None else job_row(job, number),
        plan.cancel,
        f"replaced by the plan of {plan.at.astimezone(UTC).isoformat()}" if plan.cancel else "",
        False if plan.beside is None else list(dict.fromkeys(plan.beside)),
    )
