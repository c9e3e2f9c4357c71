"""How a schedule stands: its next and newest plans, and what doctor and `list` say about it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from holdfast.schedule.model import DECLARATION_SECONDS, Definition, Schedule
from holdfast.schedule.rule import shift_of, times_of
from holdfast.schedule.zone import MICRO
from holdfast.store.contract.workers import WorkerInfo

FORGOTTEN = timedelta(seconds=DECLARATION_SECONDS)


def next_plan_due(schedule: Schedule, now: datetime) -> datetime | None:
    """When the next plan is due, paused or not: a plan of a pause is due too, and recorded as
    skipped. None if the rule has no more plans."""
    rule = schedule.definition.rule
    shift = shift_of(rule, schedule.name)
    following = times_of(rule).after(now - shift)
    return None if following is None else following + shift


def next_due(schedule: Schedule, now: datetime) -> datetime | None:
    """When the next plan that may fire is due; None if never, or while the schedule is paused."""
    return None if schedule.paused else next_plan_due(schedule, now)


def has_ended(schedule: Schedule, now: datetime) -> bool:
    """Whether the end of the schedule has come, so that no plan follows."""
    return schedule.definition.rule.end is not None and next_plan_due(schedule, now) is None


def newest_due(schedule: Schedule, now: datetime) -> datetime | None:
    """The newest plan that is due by now; None if none has been due since the rule counts."""
    rule = schedule.definition.rule
    shift = shift_of(rule, schedule.name)
    newest = times_of(rule).before(now - shift + MICRO)
    return None if newest is None or newest + shift <= schedule.counts_from else newest


def undecided_for(schedule: Schedule, cursor: datetime | None, now: datetime) -> timedelta:
    """How long the oldest plan after the cursor has been due; zero or less if none is."""
    rule = schedule.definition.rule
    shift = shift_of(rule, schedule.name)
    since = schedule.counts_from - shift
    first = times_of(rule).after(since if cursor is None else max(cursor, since))
    return timedelta(0) if first is None else now - shift - first


def undeclared(schedule: Schedule, workers: Sequence[WorkerInfo], now: datetime) -> bool:
    """Whether code declared the schedule once and the code of no live worker does any more.

    Without a live worker nobody can know, so the answer is False.
    """
    started = [w.started_at for w in workers if w.alive and w.started_at is not None]
    if schedule.declared_at is None or not started:
        return False
    return schedule.declared_at < min(started) or now - schedule.declared_at > FORGOTTEN


def contested(schedule: Schedule, now: datetime) -> str | None:
    """How an older program that still runs declares the schedule differently; None if none does."""
    rival, declared_at = schedule.rival, schedule.rival_at
    if rival is None or declared_at is None or now - declared_at > FORGOTTEN:
        return None
    stands, other = _fields(schedule.definition), _fields(rival)
    differences = [
        f"{name} {other[name]!r} instead of {stands[name]!r}" for name in _differ(stands, other)
    ]
    return f"older code that still runs declares {', '.join(differences) or 'it differently'}"


def _fields(definition: Definition) -> dict[str, object]:
    """The fields of the definition and of its rule, by name."""
    named: dict[str, object] = msgspec.structs.asdict(definition)
    return {**msgspec.structs.asdict(definition.rule), **named}


def _differ(stands: dict[str, object], other: dict[str, object]) -> list[str]:
    return [name for name in stands if name != "rule" and stands[name] != other[name]]


def rule_text(schedule: Schedule) -> str:
    """The rule in a few words."""
    rule = schedule.definition.rule
    when = f"{rule.cron} ({rule.timezone})"
    if rule.every is not None:
        when = f"every {timedelta(seconds=rule.every)}"
    start = f" from {_shown(rule.start)}" if rule.start else ""
    return f"{when}{start}{f' until {_shown(rule.end)}' if rule.end else ''}"


def _shown(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="minutes").replace("+00:00", "Z")
