"""Time zones: their offsets from UTC, and the instants at which an offset changes."""

from __future__ import annotations

from datetime import MAXYEAR, UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

MICRO = timedelta(microseconds=1)
DAY = timedelta(days=1)
LONGEST_SHIFT = timedelta(hours=3)
"""A larger change of the offset is no daylight saving: as cron does, it is taken for a new clock,
such as that of a country that moved to the other side of the date line."""


def offset_at(zone: ZoneInfo, moment: datetime) -> timedelta:
    offset = moment.astimezone(zone).utcoffset()
    assert offset is not None, "a ZoneInfo knows its offset"
    return offset


def wall_at(zone: ZoneInfo, moment: datetime) -> datetime:
    """What the clock on the wall shows, as a datetime without a zone."""
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def last_change(zone: ZoneInfo, after: datetime, until: datetime) -> datetime | None:
    """The last change of the offset later than `after`, up to and including `until`."""
    for year in range(until.year, after.year - 1, -1):
        for change in reversed(changes(zone, year)):
            if after < change <= until:
                return change
    return None


def first_change(zone: ZoneInfo, after: datetime, until: datetime) -> datetime | None:
    """The first change of the offset later than `after`, up to and including `until`."""
    for year in range(after.year, until.year + 1):
        for change in changes(zone, year):
            if after < change <= until:
                return change
    return None


def last_jump(zone: ZoneInfo, after: datetime, until: datetime) -> datetime | None:
    """As `last_change`, of changes that are larger than daylight saving."""
    while (change := last_change(zone, after, until)) is not None:
        if is_jump(zone, change):
            return change
        until = change - MICRO
    return None


def first_jump(zone: ZoneInfo, after: datetime, until: datetime) -> datetime | None:
    """As `first_change`, of changes that are larger than daylight saving."""
    while (change := first_change(zone, after, until)) is not None:
        if is_jump(zone, change):
            return change
        after = change
    return None


@lru_cache(maxsize=4096)
def is_jump(zone: ZoneInfo, change: datetime) -> bool:
    return abs(offset_at(zone, change) - offset_at(zone, change - MICRO)) > LONGEST_SHIFT


@lru_cache(maxsize=4096)
def changes(zone: ZoneInfo, year: int) -> tuple[datetime, ...]:
    """The first instants of each new offset in a year (UTC), in order.

    A ZoneInfo does not list its changes. So the offsets of neighbouring days are compared, and the
    change between two days that differ is found by halving.
    """
    start = datetime(year, 1, 1, tzinfo=UTC) - MICRO
    days = 366 if year < MAXYEAR else 364
    found = []
    for number in range(days):
        low, high = start + number * DAY, start + (number + 1) * DAY
        if offset_at(zone, low) != offset_at(zone, high):
            found.append(_halved(zone, low, high))
    return tuple(change for change in found if change.year == year)


def _halved(zone: ZoneInfo, low: datetime, high: datetime) -> datetime:
    before = offset_at(zone, low)
    while high - low > MICRO:
        middle = low + (high - low) // 2
        if offset_at(zone, middle) == before:
            low = middle
        else:
            high = middle
    return high
