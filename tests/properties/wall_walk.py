"""Schedules told by brute force: every minute is looked at, and nothing of the library is used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

MINUTE = timedelta(minutes=1)
ALL_HOURS = frozenset(range(24))
BACK = timedelta(hours=30)
LONGEST_SHIFT = timedelta(hours=3)
STARS = {frozenset(range(60)): "*", frozenset({0, 15, 30, 45}): "*/15"}

# Each with a moment near which something happens to its clock.
MOMENTS = {
    "Europe/Berlin": ("2027-03-28T01:00", "2027-10-31T01:00"),
    "America/New_York": ("2027-03-14T07:00", "2027-11-07T06:00"),
    "America/Santiago": ("2027-04-04T03:00", "2027-09-05T04:00"),
    "Australia/Lord_Howe": ("2027-04-03T15:00", "2027-10-02T15:30"),
    "Asia/Kathmandu": ("2027-03-28T01:00", "2027-10-31T01:00"),
    "Africa/Casablanca": ("2027-02-07T02:00", "2027-03-14T02:00"),
    "Pacific/Apia": ("2011-12-30T10:00", "2027-06-01T00:00"),  # leaves a day out
    "Pacific/Kwajalein": ("1993-08-21T12:00", "2027-06-01T00:00"),  # leaves a day out
    "Antarctica/Vostok": ("1994-01-31T17:00", "1994-11-01T00:00"),  # seven hours back, and forth
    "UTC": ("2028-02-29T00:00", "2027-12-31T23:00"),
}


@dataclass(frozen=True)
class Expression:
    """A cron expression beside the sets it means."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int] | None
    weekdays: frozenset[int] | None

    @property
    def text(self) -> str:
        hours = "*" if self.hours == ALL_HOURS else _listed(self.hours)
        minutes = STARS.get(self.minutes) or _listed(self.minutes)
        return f"{minutes} {hours} {_listed(self.days)} * {_listed(self.weekdays)}"

    @property
    def elapsed(self) -> bool:
        return self.hours == ALL_HOURS or self.minutes in STARS

    def matches(self, wall: datetime) -> bool:
        return wall.minute in self.minutes and wall.hour in self.hours and self._day(wall)

    def _day(self, wall: datetime) -> bool:
        of_month = self.days is not None and wall.day in self.days
        of_week = self.weekdays is not None and wall.isoweekday() % 7 in self.weekdays
        if self.days is None or self.weekdays is None:
            return of_month or of_week or (self.days is None and self.weekdays is None)
        return of_month or of_week


def _listed(values: frozenset[int] | None) -> str:
    return "*" if values is None else ",".join(map(str, sorted(values)))


def walk(
    expression: Expression, zone: str, after: datetime, until: datetime, step: timedelta = MINUTE
) -> list[datetime]:
    """The plans later than `after`, up to and with `until`, by the documented rules.

    A longer `step` will do where it divides all minutes of the expression and every offset.
    """
    start = (after - BACK).replace(minute=0, second=0, microsecond=0)
    found = _elapsed if expression.elapsed else _on_the_wall
    plans = found(expression, ZoneInfo(zone), start, until, step)
    return [at for at in plans if after < at <= until]


def _elapsed(
    expression: Expression, zone: ZoneInfo, start: datetime, end: datetime, step: timedelta
) -> Iterator[datetime]:
    for moment in _steps(start, end, step):
        if expression.matches(_wall(zone, moment)):
            yield moment


def _on_the_wall(
    expression: Expression, zone: ZoneInfo, start: datetime, end: datetime, step: timedelta
) -> Iterator[datetime]:
    shown: set[datetime] = set()
    previous = _wall(zone, start - step)
    for moment in _steps(start, end, step):
        wall = _wall(zone, moment)
        if abs(wall - previous) > LONGEST_SHIFT:  # another clock: what it left out does not count
            shown.clear()
            previous = wall
        skipped = _steps(previous + step, wall - step, step)
        fires = any(expression.matches(each) for each in skipped)
        if fires or (wall not in shown and expression.matches(wall)):
            yield moment
        shown.add(wall)
        previous = wall


def _steps(start: datetime, end: datetime, step: timedelta) -> Iterator[datetime]:
    moment = start
    while moment <= end:
        yield moment
        moment += step


def _wall(zone: ZoneInfo, moment: datetime) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def _some(low: int, high: int, most: int) -> st.SearchStrategy[frozenset[int]]:
    return st.frozensets(st.integers(low, high), min_size=1, max_size=most)


expressions = st.builds(
    Expression,
    st.one_of(_some(0, 59, 3), st.just(frozenset(range(60))), st.just(frozenset({0, 15, 30, 45}))),
    st.one_of(_some(0, 4, 3), st.just(ALL_HOURS), _some(0, 23, 6)),
    st.one_of(st.none(), _some(1, 28, 12)),
    st.one_of(st.none(), _some(0, 6, 4)),
)


@dataclass(frozen=True)
class Place:
    """A zone, and a moment in it."""

    zone: str
    moment: datetime


@st.composite
def places(draw: st.DrawFn) -> Place:
    """Mostly near a change of clocks, where mistakes live."""
    zone = draw(st.sampled_from(sorted(MOMENTS)))
    change = datetime.fromisoformat(draw(st.sampled_from(MOMENTS[zone]))).replace(tzinfo=UTC)
    return Place(zone, change + timedelta(seconds=draw(st.integers(-90_000, 90_000))))
