"""Whatever terms an expression is made of, it matches the times that a table of values says."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.schedule.cron import Cron

WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
START = datetime(2027, 1, 1)  # noqa: DTZ001 - wall-clock times have no zone here
Draw = Callable[[st.SearchStrategy[Any]], Any]
Days = Callable[[date], bool]


@dataclass(frozen=True)
class Terms:
    """A field as text, and the values that it means."""

    text: str
    values: frozenset[int]


@st.composite
def terms(draw: Draw, low: int, high: int, names: tuple[str, ...] = ()) -> Terms:
    """One to three terms: values, ranges that may go on at the start, steps; names in any case."""
    texts, values = [], set[int]()
    for _ in range(draw(st.integers(1, 3))):
        first, last = draw(st.integers(low, high)), draw(st.integers(low, high))
        step = draw(st.integers(1, 5))

        def shown(value: int) -> str:
            name = names[value - low] if names and draw(st.booleans()) else str(value)
            return name.upper() if draw(st.booleans()) else name

        around = [*range(first, high + 1), *range(low, first)]
        ranged = around[: around.index(last) + 1]
        match draw(st.sampled_from(["value", "range", "stepped"])):
            case "value":
                texts.append(shown(first))
                values.add(first)
            case "range":
                texts.append(f"{shown(first)}-{shown(last)}")
                values.update(ranged)
            case _:
                texts.append(f"{shown(first)}-{shown(last)}/{step}")
                values.update(ranged[::step])
    return Terms(",".join(texts), frozenset(values))


def walked(matches: Callable[[datetime], bool], end: datetime, step: timedelta) -> list[datetime]:
    found, moment = [], START
    while moment <= end:
        if moment > START and matches(moment):
            found.append(moment)
        moment += step
    return found


def both_ways(cron: Cron, end: datetime) -> list[datetime]:
    found, moment = [], cron.after(START)
    while moment is not None and moment <= end:
        found.append(moment)
        moment = cron.after(moment)
    back, moment = [], cron.before(end + timedelta(microseconds=1))
    while moment is not None and moment > START:
        back.append(moment)
        moment = cron.before(moment)
    assert found == back[::-1]
    return found


@settings(max_examples=60)
@given(terms(0, 59), terms(0, 23))
def test_minutes_and_hours(minutes: Terms, hours: Terms) -> None:
    end = START + timedelta(days=1, hours=12)
    found = both_ways(Cron(f"{minutes.text} {hours.text} * * *"), end)

    def matches(moment: datetime) -> bool:
        return moment.minute in minutes.values and moment.hour in hours.values

    assert found == walked(matches, end, timedelta(minutes=1))


@settings(max_examples=60)
@given(terms(1, 31), terms(1, 12, tuple(MONTHS)), terms(0, 6, tuple(WEEKDAYS)), st.booleans())
def test_days_months_and_weekdays(days: Terms, months: Terms, weekdays: Terms, any_: bool) -> None:
    """Restricted days of month and weekdays: either is enough. `?` restricts nothing."""
    end = START + timedelta(days=800)
    shown = "?" if any_ and not any(map(str.isdigit, weekdays.text)) else days.text

    def matches(moment: datetime) -> bool:
        of_week = moment.isoweekday() % 7 in weekdays.values
        of_month = shown != "?" and moment.day in days.values
        return moment.month in months.values and (of_week or of_month)

    found = both_ways(Cron(f"0 0 {shown} {months.text} {weekdays.text}"), end)
    assert found == walked(matches, end, timedelta(days=1))


def nearest(day: int, last: int, of: date) -> int:
    """The nearest day from Monday to Friday in the month, by looking at all of them."""
    near = [d for d in range(1, last + 1) if of.replace(day=d).isoweekday() <= 5]
    return min(near, key=lambda d: abs(d - day))


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["day", "dayW", "L", "L-", "L-W", "LW"]),
            st.integers(1, 31),
            st.integers(0, 9),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_special_days_of_the_month(chosen: list[tuple[str, int, int]]) -> None:
    texts: list[str] = []
    means: list[Days] = []
    for kind, day, back in chosen:
        match kind:
            case "day":
                texts.append(str(day))
            case "dayW":
                texts.append(f"{day}w")
            case "L-" | "L-W":
                texts.append(f"L-{back}" + ("W" if kind == "L-W" else ""))
            case _:
                texts.append(kind)
        means.append(_meaning(kind, day, back))
    end = START + timedelta(days=500)
    found = both_ways(Cron(f"0 0 {','.join(texts)} * *"), end)

    def matches(moment: datetime) -> bool:
        return any(mean(moment.date()) for mean in means)

    assert found == walked(matches, end, timedelta(days=1))


def _meaning(kind: str, day: int, back: int) -> Days:
    def mean(of: date) -> bool:
        last = monthrange(of.year, of.month)[1]
        wanted = day if kind.startswith("day") else last - (back if "-" in kind else 0)
        if wanted > last:
            return False
        return of.day == (nearest(wanted, last, of) if kind.endswith("W") else wanted)

    return mean
