"""What `holdfast doctor` looks at in schedules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from holdfast.errors import HoldfastError
from holdfast.schedule.model import NO_SCOPE, Schedule
from holdfast.schedule.status import contested, undecided_for, undeclared
from holdfast.store.contract.records import Finding, Severity, WorkerInfo
from holdfast.store.contract.store import Store

OVERDUE = timedelta(seconds=60)


async def check_schedules(
    store: Store, workers: Sequence[WorkerInfo], now: datetime
) -> list[Finding]:
    """Schedules in trouble, schedules that code forgot, and plans that nobody decided about."""
    found = await store.schedules.list()
    findings = [
        *(_in_trouble(schedule) for schedule in found if schedule.error),
        *(_forgotten(each) for each in found if undeclared(each, workers, now)),
        *(_contested(each, told) for each in found if (told := contested(each, now))),
    ]
    for schedule in found:
        findings += await _overdue(store, schedule, workers, now)
    told = f"{len(found)} schedules, none in trouble or overdue"
    return findings or [Finding("schedules", Severity.OK, told)]


def _in_trouble(schedule: Schedule) -> Finding:
    since = "" if schedule.error_at is None else f" since {schedule.error_at.isoformat()}"
    saw = f"schedule {schedule.name!r} cannot be evaluated{since}: {schedule.error}"
    advice = f"mend what it names; it goes on by itself (holdfast schedules show {schedule.name})"
    return Finding("schedules", Severity.PROBLEM, saw, advice)


def _forgotten(schedule: Schedule) -> Finding:
    saw = f"schedule {schedule.name!r} is no longer declared by the code of any live worker"
    advice = f"if it is not wanted any more: holdfast schedules delete {schedule.name}"
    return Finding("schedules", Severity.WARNING, saw, advice)


def _contested(schedule: Schedule, told: str) -> Finding:
    advice = "the code that started last counts; stop the older one, or give one of them name=…"
    return Finding("schedules", Severity.WARNING, f"schedule {schedule.name!r}: {told}", advice)


async def _overdue(
    store: Store, schedule: Schedule, workers: Sequence[WorkerInfo], now: datetime
) -> list[Finding]:
    """A planner's plans are its own, so they cannot be missed here."""
    if schedule.paused or schedule.error or schedule.definition.planner is not None:
        return []
    cursors = await store.schedules.cursors(schedule.name, [NO_SCOPE])
    try:
        waits = undecided_for(schedule, cursors.get(NO_SCOPE), now)
    except HoldfastError as error:
        return [Finding("schedules", Severity.PROBLEM, f"schedule {schedule.name!r}: {error}")]
    if waits < OVERDUE:
        return []
    saw = f"schedule {schedule.name!r}: nobody has decided about a plan due {waits} ago"
    if any(worker.alive for worker in workers):
        return [Finding("schedules", Severity.PROBLEM, saw, "look for errors in the workers' logs")]
    return [Finding("schedules", Severity.WARNING, saw, "start a worker: holdfast worker app:app")]
