"""Whatever the expression, the zone and the pauses: every plan is accounted for, none twice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.schedule.catch_up import ON_TIME_SECONDS, DecidedPlan, due_plans
from holdfast.schedule.model import CatchUp, Decision, Definition, Rule
from tests.properties.wall_walk import Expression, Place, expressions, places, walk

STANDS_FOR = re.compile(r"stands for every plan from (\S+) to (\S+):")
HOUR = 3600.0


@dataclass(frozen=True)
class Pass:
    """One evaluation of the schedule, and all it decided."""

    now: datetime
    rows: tuple[DecidedPlan, ...]
    more: bool


definitions = st.builds(
    Definition,
    rule=st.just(Rule(every=60)),
    task=st.just("task"),
    queue=st.just("default"),
    catch_up=st.sampled_from(CatchUp),
    window=st.sampled_from([HOUR, 6 * HOUR, 24 * HOUR]),
    cap=st.sampled_from([1, 3, 20, 100]),
    lateness=st.sampled_from([None, None, 60.0, 2 * HOUR]),
)
pauses = st.lists(st.integers(1, 900), min_size=1, max_size=6)


def evaluate_again_and_again(
    definition: Definition, start: datetime, minutes: list[int]
) -> list[Pass]:
    """Evaluations with pauses between them, each going on while there is more."""
    passes: list[Pass] = []
    last, now = None, start
    for pause in minutes:
        now += timedelta(minutes=pause, seconds=7)
        while True:
            due = due_plans(definition, "name", last, start, now)
            passes.append(Pass(now, due.plans, due.more))
            last = due.plans[-1].at if due.plans else last
            if not due.more:
                break
    return passes


def accounted(rows: list[DecidedPlan], expected: list[datetime]) -> list[datetime]:
    """The plan times that the rows stand for."""
    found: list[datetime] = []
    for row in rows:
        stands = STANDS_FOR.match(row.reason)
        if stands is None:
            found.append(row.at)
        else:
            first, last = (datetime.fromisoformat(text) for text in stands.groups())
            found += [at for at in expected if first <= at <= last]
    return found


def with_rule(definition: Definition, expression: Expression, place: Place) -> Definition:
    rule = Rule(cron=expression.text, timezone=place.zone)
    fields = {name: getattr(definition, name) for name in definition.__struct_fields__}
    return Definition(**(fields | {"rule": rule}))


@settings(max_examples=120)
@given(definitions, expressions, places(), pauses)
def test_every_plan_is_accounted_for_once_and_in_order(
    plain: Definition, expression: Expression, place: Place, minutes: list[int]
) -> None:
    passes = evaluate_again_and_again(with_rule(plain, expression, place), place.moment, minutes)
    expected = walk(expression, place.zone, place.moment, passes[-1].now)
    rows = [row for each in passes for row in each.rows]
    times = [row.at for row in rows]
    assert times == sorted(set(times))
    assert accounted(rows, expected) == expected


@settings(max_examples=120)
@given(definitions, expressions, places(), pauses)
def test_what_does_not_fire_is_what_the_policy_leaves_out(
    plain: Definition, expression: Expression, place: Place, minutes: list[int]
) -> None:
    definition = with_rule(plain, expression, place)
    for each in evaluate_again_and_again(definition, place.moment, minutes):
        fired = [row.at for row in each.rows if row.decision is Decision.FIRED]
        others = [row for row in each.rows if row.decision is not Decision.FIRED]
        assert len(others) <= definition.cap + 1
        if definition.catch_up is CatchUp.LATEST:
            assert_the_newest_fires(definition, each, fired)
        else:
            assert_those_on_time_fire(definition, each, fired, others)


def assert_the_newest_fires(definition: Definition, each: Pass, fired: list[datetime]) -> None:
    newest = [row.at for row in each.rows][-1:]
    late = definition.lateness is not None and any(
        (each.now - at).total_seconds() > definition.lateness for at in newest
    )
    assert fired == ([] if late else newest)


def assert_those_on_time_fire(
    definition: Definition, each: Pass, fired: list[datetime], others: list[DecidedPlan]
) -> None:
    none = definition.catch_up is CatchUp.NONE
    limit = min(
        ON_TIME_SECONDS if none and definition.lateness is None else definition.window,
        definition.window if definition.lateness is None else definition.lateness,
    )
    if none and definition.lateness is not None:
        limit = definition.lateness
    assert all((each.now - at).total_seconds() <= limit for at in fired)
    assert all((each.now - row.at).total_seconds() > limit for row in others)
    assert len(fired) <= definition.cap
    assert not each.more or len(fired) == definition.cap
