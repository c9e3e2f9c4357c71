"""The doctor's checks of schedules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from holdfast.errors import HoldfastError
from holdfast.insights.actions import START_WORKER, Action, Noun, Verb
from holdfast.insights.diagnosis import OK, PROBLEM, WARNING, Diagnosis
from holdfast.schedule.model import Schedule
from holdfast.schedule.status import contested, has_ended, undecided_for, undeclared
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import WorkerInfo

OVERDUE = timedelta(seconds=60)


async def check_schedules(
    store: Store, workers: Sequence[WorkerInfo], now: datetime
) -> list[Diagnosis]:
    """Schedules that cannot be evaluated, schedules that no code declares any more, schedules that
    two programs declare differently, schedules whose task nobody has, and due plans that nobody has
    decided about."""
    found = await store.schedules.find()
    findings = [
        *(_in_trouble(schedule) for schedule in found if schedule.error),
        *(_forgotten(each) for each in found if undeclared(each, workers, now)),
        *(_contested(each, why) for each in found if (why := contested(each, now))),
        *(_without_task(each) for each in found if _lacks_task(each, workers, now)),
    ]
    cursors = await store.schedules.own_cursors()
    for schedule in found:
        findings += _overdue(schedule, cursors.get(schedule.name), workers, now)
    well = f"{len(found)} schedules, none in trouble or overdue"
    return findings or [Diagnosis("schedules", OK, well)]


def _in_trouble(schedule: Schedule) -> Diagnosis:
    since = "" if schedule.error_at is None else f" since {schedule.error_at.isoformat()}"
    saw = f"schedule {schedule.name!r} cannot be evaluated{since}: {schedule.error}"
    advice = "mend what the error names; the schedule then goes on by itself"
    return Diagnosis("schedules", PROBLEM, saw, advice)


def _forgotten(schedule: Schedule) -> Diagnosis:
    saw = f"schedule {schedule.name!r} is no longer declared by the code of any live worker"
    delete = Action(Noun.SCHEDULES, Verb.DELETE, schedule.name)
    return Diagnosis("schedules", WARNING, saw, "delete it if it is not wanted any more", (delete,))


def _contested(schedule: Schedule, why: str) -> Diagnosis:
    advice = "the code that started last counts; stop the older one, or give one of them name=…"
    return Diagnosis("schedules", WARNING, f"schedule {schedule.name!r}: {why}", advice)


def _lacks_task(schedule: Schedule, workers: Sequence[WorkerInfo], now: datetime) -> bool:
    if schedule.paused or schedule.error:
        return False
    try:
        over = has_ended(schedule, now)
    except HoldfastError:
        return False  # told as what keeps it from being evaluated
    alive = [worker for worker in workers if worker.alive]
    task = schedule.definition.task
    return bool(alive) and not over and not any(task in worker.tasks for worker in alive)


def _without_task(schedule: Schedule) -> Diagnosis:
    chosen = schedule.definition
    saw = f"schedule {schedule.name!r}: no live worker knows its task {chosen.task!r}"
    advice = f"deploy a worker with this task, or pause or delete it; {chosen.cap} jobs may wait"
    acts = [Action(Noun.SCHEDULES, verb, schedule.name) for verb in (Verb.PAUSE, Verb.DELETE)]
    return Diagnosis("schedules", WARNING, saw, advice, tuple(acts))


def _overdue(
    schedule: Schedule, cursor: datetime | None, workers: Sequence[WorkerInfo], now: datetime
) -> list[Diagnosis]:
    """Whether the schedule's own plans were decided about. Plans of a planner are not checked:
    only the planner knows when they are due."""
    if schedule.paused or schedule.error or schedule.definition.planner is not None:
        return []
    try:
        waits = undecided_for(schedule, cursor, now)
    except HoldfastError as error:
        return [Diagnosis("schedules", PROBLEM, f"schedule {schedule.name!r}: {error}")]
    if waits < OVERDUE:
        return []
    saw = f"schedule {schedule.name!r}: nobody has decided about a plan due {waits} ago"
    if any(worker.alive for worker in workers):
        return [Diagnosis("schedules", PROBLEM, saw, "look for errors in the workers' logs")]
    return [Diagnosis("schedules", WARNING, saw, "start a worker", (START_WORKER,))]
