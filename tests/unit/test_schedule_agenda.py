"""The agenda of an evaluator: which schedule is evaluated next, and when again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.schedule.agenda import (
    AGAIN_SECONDS,
    LONGEST_REST_SECONDS,
    LONGEST_RETRY_SECONDS,
    Agenda,
    Entry,
)
from holdfast.schedule.evaluation import MISSING_CODE_SECONDS, Evaluated
from holdfast.schedule.model import Definition, Rule, Schedule

NOW = datetime(2027, 1, 1, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
PLAN = NOW + HOUR / 2


def schedule(name: str = "s", cron: str = "@hourly", **fields: Any) -> Schedule:
    definition = Definition(Rule(cron=cron), task="t", queue="q")
    given: dict[str, Any] = {"revision": 1, "created_at": NOW, "declared_at": NOW}
    return Schedule(name, definition, **({"paused": False, "edited": False} | given | fields))


async def agenda_of(*schedules: Schedule, leading: bool = True) -> Agenda:
    agenda = Agenda()
    await agenda.update(schedules, NOW, leading=leading)
    return agenda


async def test_schedules_come_in_order_of_their_next_plan() -> None:
    agenda = await agenda_of(schedule("later", "0 15 * * *"), schedule("sooner"))
    assert agenda.first_due == PLAN
    assert agenda.pop_due(PLAN - HOUR / 60) is None
    popped = [agenda.pop_due(PLAN + 3 * HOUR) for _ in range(3)]
    assert [entry and entry.name for entry in popped] == ["sooner", "later", None]


async def test_a_paused_schedule_has_its_turn_too() -> None:
    agenda = await agenda_of(schedule(paused=True))
    assert agenda.first_due == PLAN


@pytest.mark.parametrize(
    ("fields", "leading", "unseen"),
    [
        ({}, True, False),  # nothing can be due yet
        ({"created_at": NOW - HOUR}, True, True),
        ({"created_at": NOW - HOUR}, False, False),  # the leader evaluates it
        ({"error": "broken"}, True, True),
        ({"changed_at": NOW}, True, True),
        ({"cron": "nonsense"}, False, True),  # so that the error is shown at once
    ],
)
async def test_what_may_have_been_due_before_is_unseen(
    fields: dict[str, Any], leading: bool, unseen: bool
) -> None:
    agenda = await agenda_of(schedule(**fields), leading=leading)
    assert agenda.has_unseen is unseen
    assert (agenda.pop_unseen() is not None) is unseen


async def test_an_unchanged_schedule_keeps_its_time_and_a_changed_one_gets_another() -> None:
    agenda = await agenda_of(schedule())
    entry = agenda.pop_due(PLAN)
    assert entry is not None
    agenda.begin(entry)
    agenda.end(entry, NOW + timedelta(seconds=1), entry.schedule.version)
    await agenda.update([schedule()], NOW, leading=True)
    assert agenda.first_due == NOW + timedelta(seconds=1)
    await agenda.update([schedule(revision=2)], NOW, leading=True)
    assert agenda.first_due == PLAN
    assert agenda.pop_due(NOW + timedelta(seconds=1)) is None


async def test_a_schedule_that_changed_during_its_evaluation_is_evaluated_again() -> None:
    agenda = await agenda_of(schedule())
    entry = agenda.pop_due(PLAN)
    assert entry is not None
    agenda.begin(entry)
    await agenda.update([schedule(revision=2)], NOW, leading=True)
    agenda.end(entry, PLAN + HOUR, schedule().version)
    assert agenda.pop_unseen() is entry


async def test_a_schedule_that_is_gone_has_no_next_time() -> None:
    agenda = await agenda_of(schedule())
    entry = agenda.pop_due(PLAN)
    assert entry is not None
    agenda.begin(entry)
    agenda.mark_all_unseen()
    await agenda.update([], NOW, leading=True)
    agenda.end(entry, PLAN + HOUR, entry.schedule.version)
    assert agenda.first_due is None
    assert agenda.pop_unseen() is None


@pytest.mark.parametrize(
    ("evaluated", "wait"),
    [
        (Evaluated(None, NOW), None),
        (Evaluated(PLAN, NOW), 1800.0),
        (Evaluated(PLAN, NOW, more=True), AGAIN_SECONDS),
        (Evaluated(PLAN, NOW, waiting=True), AGAIN_SECONDS),
        (Evaluated(PLAN, NOW, failed=True), AGAIN_SECONDS),
        (Evaluated(PLAN, NOW, lacks_code=True), MISSING_CODE_SECONDS + AGAIN_SECONDS),
    ],
)
def test_a_schedule_is_evaluated_at_its_next_plan_or_earlier(
    evaluated: Evaluated, wait: float | None
) -> None:
    again = Entry(schedule()).next_evaluation(evaluated)
    assert again == (None if wait is None else NOW + timedelta(seconds=wait))


def test_a_schedule_that_fails_waits_longer_each_time_until_it_works() -> None:
    entry, failed = Entry(schedule()), Evaluated(None, NOW, failed=True)

    def waits(count: int) -> list[float]:
        times = [entry.next_evaluation(failed) for _ in range(count)]
        return [(at - NOW).total_seconds() for at in times if at is not None]

    assert waits(8) == [1, 2, 4, 8, 16, 32, LONGEST_RETRY_SECONDS, LONGEST_RETRY_SECONDS]
    entry.next_evaluation(Evaluated(None, NOW))
    assert waits(1) == [1]
    entry.took = 1_000.0
    assert waits(1) == [LONGEST_REST_SECONDS]
