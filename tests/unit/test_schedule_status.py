"""How a schedule stands: what is said of it, and what cannot be known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.insights.schedule_checks import check_schedules
from holdfast.job.ids import WorkerId
from holdfast.schedule.model import Definition, Rule, Schedule
from holdfast.schedule.status import contested, newest_due, next_due, undeclared
from holdfast.store.contract.health import Severity
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import WorkerInfo
from tests.support.backends import opened

NOW = datetime(2027, 1, 1, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


def schedule(**fields: object) -> Schedule:
    given = {
        "name": "s",
        "definition": Definition(Rule(cron="@hourly"), task="t", queue="q"),
        "paused": False,
        "edited": False,
        "revision": 1,
        "created_at": NOW - 3 * HOUR,
        "declared_at": NOW - timedelta(minutes=5),
    }
    return Schedule(**(given | fields))  # type: ignore[arg-type]


def worker(started: datetime, expires_in: float = 10.0) -> WorkerInfo:
    return WorkerInfo(
        WorkerId("w"), "w", "h", 1, {}, ("t",), "0", started_at=started, expires_in=expires_in
    )


def test_a_paused_schedule_has_no_next_plan() -> None:
    assert next_due(schedule(), NOW) == NOW + HOUR / 2
    assert next_due(schedule(paused=True), NOW) is None


def test_a_rival_is_told_field_by_field_while_it_lives() -> None:
    rival = Definition(Rule(cron="@daily"), task="t", queue="q", priority=3)
    told = contested(schedule(rival=rival, rival_at=NOW - timedelta(minutes=5)), NOW)
    assert told == (
        "older code that still runs declares cron '@daily' instead of '@hourly', "
        "priority 3 instead of 0"
    )
    assert contested(schedule(rival=rival, rival_at=NOW - HOUR), NOW) is None
    assert contested(schedule(), NOW) is None


def test_nothing_is_due_before_the_rule_counts() -> None:
    assert newest_due(schedule(), NOW) == NOW - HOUR / 2
    assert newest_due(schedule(created_at=NOW - HOUR / 4), NOW) is None
    assert newest_due(schedule(changed_at=NOW - HOUR / 4), NOW) is None


@pytest.mark.parametrize(
    ("declared", "workers", "answer"),
    [
        (None, [worker(NOW - HOUR)], False),  # made at run time
        (NOW - HOUR, [], False),  # nobody is there to ask
        (NOW - HOUR, [worker(NOW - HOUR / 2, expires_in=-1)], False),
        (NOW - HOUR, [worker(NOW - HOUR / 2)], True),  # started later, and did not declare it
        (NOW - HOUR, [worker(NOW - 2 * HOUR)], True),  # would have declared it again by now
        (NOW - HOUR / 6, [worker(NOW - HOUR)], False),
    ],
)
def test_what_no_live_code_declares_is_told(
    declared: datetime | None, workers: list[WorkerInfo], answer: bool
) -> None:
    assert undeclared(schedule(declared_at=declared), workers, NOW) is answer


async def test_doctor_warns_of_plans_without_a_decision_and_of_forgotten_schedules() -> None:
    async with opened("sqlite://") as store:
        rule = Rule(every=60)
        await store.schedules.declare({"s": Definition(rule, task="t", queue="q")})
        later = await store.now() + timedelta(minutes=30)
        [forgotten, overdue] = await check_schedules(store, [worker(later - HOUR)], later)
        assert (forgotten.severity, overdue.severity) == (Severity.WARNING, Severity.PROBLEM)
        assert "no longer declared" in forgotten.saw
        assert "nobody has decided" in overdue.saw
        await _decided(store, later)
        [fine] = await check_schedules(store, [], later)
        assert fine.severity is Severity.OK


async def test_doctor_names_a_schedule_whose_task_no_live_worker_knows() -> None:
    async with opened("sqlite://") as store:
        gone = Definition(Rule(cron="@yearly"), task="gone", queue="q")
        over = Definition(
            Rule(cron="@daily", end=datetime(2020, 1, 1, tzinfo=UTC)), task="gone", queue="q"
        )
        await store.schedules.declare({"s": gone, "over": over})
        now = await store.now()
        [told] = await check_schedules(store, [worker(now - HOUR)], now)
        assert told.severity is Severity.WARNING
        assert "'s': no live worker knows its task 'gone'" in told.saw
        [fine] = await check_schedules(store, [], now)
        assert fine.severity is Severity.OK, "without a live worker nobody can know"


async def _decided(store: Store, until: datetime) -> None:
    await store.schedules.advance("s", "", until)
