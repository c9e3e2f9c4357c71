"""The periods of a budget: from when to when its spending counts together.

Times are microseconds of the store's clock. A day and a month begin at midnight of the budget's own
time zone, whatever its clocks do that night. An hour is as long as those clocks show it and are not
moved: where they move by half an hour, that begins a new hour too.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from holdfast.errors import BadOption
from holdfast.job.zones import zone_of

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

Calendar = Literal["hour", "day", "month"]
Every = Calendar | float | None

AMBIGUOUS = frozenset({"CET", "EET", "MET", "WET"})
"""Zones with a summer time, of whose names Postgres makes the winter time all the year."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)
_HOUR = 3_600_000_000


class Period(NamedTuple):
    """`end` is None where nothing but an operator begins a new one."""

    start: int
    end: int | None


def zone_named(name: str) -> ZoneInfo:
    if name in AMBIGUOUS:
        raise BadOption("timezone", "the IANA name of a place, such as Europe/Berlin, or UTC", name)
    return zone_of(name)


def period_at(every: Every, timezone: str, now: int) -> Period:
    """The period that this moment lies in."""
    if every is None:
        return Period(0, None)
    if isinstance(every, str):
        return _calendar(every, timezone, now)
    length = round(every * 1_000_000)
    start = now - now % length
    return Period(start, start + length)


def _calendar(every: Calendar, timezone: str, now: int) -> Period:
    known = _last_found(every, timezone)
    if known.period is None or not known.period.start <= now < _end(known.period):
        known.period = _found(every, zone_named(timezone), now)
    return known.period


class _Known:
    """The period that was found last: nearly always the one that is asked for next."""

    period: Period | None = None


@lru_cache(maxsize=64)
def _last_found(every: Calendar, timezone: str) -> _Known:
    return _Known()


def _end(period: Period) -> int:
    assert period.end is not None, "a calendar goes on"
    return period.end


def _found(every: Calendar, zone: ZoneInfo, now: int) -> Period:
    if every == "hour":
        return _hour(zone, now)
    there = _local(zone, now)
    first = there.date() if every == "day" else there.date().replace(day=1)
    return Period(_midnight(first, zone), _midnight(_following(first, every), zone))


def _local(zone: ZoneInfo, moment: int) -> datetime:
    return (_EPOCH + moment * _MICRO).astimezone(zone)


def _hour(zone: ZoneInfo, now: int) -> Period:
    there = _local(zone, now)
    past = timedelta(minutes=there.minute, seconds=there.second, microseconds=there.microsecond)
    start = now - past // _MICRO
    end = start + _HOUR
    return Period(
        _clock_change(zone, start, now) or start, _clock_change(zone, now, end - 1) or end
    )


def _clock_change(zone: ZoneInfo, low: int, high: int) -> int | None:
    """The moment after `low`, and not after `high`, at which the clocks are moved."""
    moved = _local(zone, high).utcoffset()
    if _local(zone, low).utcoffset() == moved:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _local(zone, middle).utcoffset() == moved:
            high = middle
        else:
            low = middle
    return high


def _following(first: date, every: Calendar) -> date:
    if every == "day":
        return first + timedelta(days=1)
    return (first + timedelta(days=32)).replace(day=1)


def _midnight(day: date, zone: ZoneInfo) -> int:
    """The first moment of a day: of two midnights the first, and where clocks go forward over
    midnight the moment at which they do."""
    at = datetime(day.year, day.month, day.day, tzinfo=zone)
    return (at.astimezone(UTC) - _EPOCH) // _MICRO
