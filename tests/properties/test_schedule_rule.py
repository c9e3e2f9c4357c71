"""Whatever the expression and the zone, the rule's times are those of a walk minute by minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.schedule.model import Rule
from holdfast.schedule.rule import Times, between, shift_of, times_of
from tests.properties.wall_walk import Expression, Place, expressions, places, walk

SPAN = st.integers(10, 1_800).map(lambda minutes: timedelta(minutes=minutes))


def backwards(times: Times, after: datetime, until: datetime) -> list[datetime]:
    found = []
    moment = times.before(until + timedelta(microseconds=1))
    while moment is not None and moment > after:
        found.append(moment)
        moment = times.before(moment)
    return found[::-1]


@settings(max_examples=150)
@given(expressions, places(), SPAN)
def test_times_are_those_of_a_walk_in_both_directions(
    expression: Expression, place: Place, span: timedelta
) -> None:
    times = times_of(Rule(cron=expression.text, timezone=place.zone))
    until = place.moment + span
    expected = walk(expression, place.zone, place.moment, until)
    assert list(between(times, place.moment, until)) == expected
    assert backwards(times, place.moment, until) == expected


@given(expressions, places())
def test_times_grow_strictly_and_a_search_back_finds_the_one_before(
    expression: Expression, place: Place
) -> None:
    times = times_of(Rule(cron=expression.text, timezone=place.zone))
    first = times.after(place.moment)
    assert first is not None
    second = times.after(first)
    assert second is not None
    assert place.moment < first < second
    assert times.before(second) == first


@given(
    st.floats(1, 1e6, allow_nan=False).map(lambda every: round(every, 6)),
    st.datetimes(datetime(2000, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_intervals_are_multiples_counted_from_the_anchor(
    every: float, anchor: datetime, moment: datetime
) -> None:
    times = times_of(Rule(every=every, anchor=anchor))
    following, step = times.after(moment), timedelta(seconds=every)
    assert following is not None
    assert (following - anchor) % step == timedelta(0)
    assert moment < following <= moment + step
    assert times.before(following) == following - step


@given(st.text(min_size=1, max_size=20), st.floats(0, 1e5))
def test_jitter_is_stable_and_stays_within_its_bound(name: str, jitter: float) -> None:
    rule = Rule(every=60, jitter=jitter, delay=5)
    shift = shift_of(rule, name)
    assert shift == shift_of(rule, name)
    assert 5 <= shift.total_seconds() <= 5 + jitter


def test_jitter_spreads_schedules() -> None:
    rule = Rule(every=60, jitter=100)
    assert len({shift_of(rule, f"schedule {n}") for n in range(100)}) > 90
