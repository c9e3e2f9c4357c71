"""Plan times: the instants that follow from a schedule's rule alone.

A cron expression is about the wall clock of a time zone. Twice a year that clock skips or repeats
some time, and each case has one rule:

- An expression that *names hours* and minutes means wall-clock times, and each of them fires
  exactly once. A time that the clock skips (the gap) fires at the first instant after the gap. A
  time that comes twice (the fold) fires the first time.
- An expression that matches *every hour*, or has `*` for its minutes, means elapsed time: it fires
  at exactly those instants whose wall clock matches. Nothing fires for the gap, and both passes of
  the fold count.

A change of more than three hours is no daylight saving but a *jump* to another clock, as when a
country changes its side of the date line. Wall-clock times that the jump leaves out do not fire,
and those that come again fire again.

An interval has no wall clock: its times are multiples of `every`, counted from the anchor.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol
from zoneinfo import ZoneInfo

from holdfast.errors import BadOption
from holdfast.job.zones import zone_of
from holdfast.schedule.cron import Cron, parse
from holdfast.schedule.model import Rule
from holdfast.schedule.zone import (
    MICRO,
    first_change,
    first_jump,
    last_change,
    last_jump,
    offset_at,
    wall_at,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONGEST_FOLD = timedelta(hours=26)
"""No zone ever set its clock back by more than this at once."""


class Times(Protocol):
    """Instants in order. Both searches exclude the instant from which they start."""

    def after(self, moment: datetime) -> datetime | None: ...

    def before(self, moment: datetime) -> datetime | None: ...


class Interval:
    """Every so many seconds, counted from an anchor: plan times do not depend on when a program
    started."""

    def __init__(self, every: float, anchor: datetime | None) -> None:
        self._step = timedelta(seconds=every)
        self._anchor = in_utc("anchor", anchor or EPOCH)

    def after(self, moment: datetime) -> datetime | None:
        return self._anchor + ((moment - self._anchor) // self._step + 1) * self._step

    def before(self, moment: datetime) -> datetime | None:
        return self._anchor + ((moment - MICRO - self._anchor) // self._step) * self._step


def in_utc(option: str, moment: datetime) -> datetime:
    """At the edge of the calendar a time zone's time may have no equivalent in UTC."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise BadOption(option, "a moment of the years 1 to 9999 in UTC", moment) from None


class ElapsedCron:
    """An expression that matches every hour: the instants whose wall clock matches.

    While the zone's offset stays the same, the wall clock and time run alike, so one search finds
    the answer. If the offset changes before the instant found, the search starts again from the
    change.
    """

    def __init__(self, cron: Cron, zone: ZoneInfo) -> None:
        self.cron = cron
        self.zone = zone

    def after(self, moment: datetime) -> datetime | None:
        start = moment + MICRO
        while True:
            offset = offset_at(self.zone, start)
            wall = self.cron.after((start + offset - MICRO).replace(tzinfo=None))
            if wall is None:
                return None
            found = wall.replace(tzinfo=UTC) - offset
            change = first_change(self.zone, start, found)
            if change is None:
                return found
            start = change

    def before(self, moment: datetime) -> datetime | None:
        end = moment
        while True:
            offset = offset_at(self.zone, end - MICRO)
            wall = self.cron.before((end + offset).replace(tzinfo=None))
            if wall is None:
                return None
            found = wall.replace(tzinfo=UTC) - offset
            change = last_change(self.zone, found, end - MICRO)
            if change is None:
                return found
            end = change


class WallCron:
    """An expression that names hours: each matching wall-clock time fires once.

    Between two jumps of the clock, a later wall-clock time never has an earlier instant
    (`instant_of`), so a search on the wall clock is a search in time. Several times of one gap have
    the same instant, which counts once. A search that comes to a jump starts again from there.
    """

    def __init__(self, cron: Cron, zone: ZoneInfo) -> None:
        self.cron = cron
        self.zone = zone

    def instant_of(self, wall: datetime, since: datetime | None) -> datetime:
        """The instant of a wall-clock time. After a jump back, `since`, it is the later of two."""
        first = self._instant(wall, 0)
        if since is not None and first < since:
            first = max(first, self._instant(wall, 1))
        if wall_at(self.zone, first) == wall:
            return first
        # The wall-clock time is in a gap. Read with the offset from before the gap, it lies after
        # the change of the offset.
        change = last_change(self.zone, first - LONGEST_FOLD, first)
        assert change is not None, "a time that does not exist lies in a gap"
        return change

    def _instant(self, wall: datetime, fold: int) -> datetime:
        return wall.replace(tzinfo=self.zone, fold=fold).astimezone(UTC)

    def after(self, moment: datetime) -> datetime | None:
        since = last_jump(self.zone, moment - LONGEST_FOLD, moment)
        start = wall_at(self.zone, moment)
        while True:
            wall = self.cron.after(start)
            while wall is not None and (found := self.instant_of(wall, since)) <= moment:
                wall = self.cron.after(wall)
            if wall is None:
                return None
            jump = first_jump(self.zone, max(moment, since or moment), found)
            if jump is None:
                return found
            since, moment, start = jump, jump - MICRO, wall_at(self.zone, jump) - MICRO

    def before(self, moment: datetime) -> datetime | None:
        end = moment
        while True:
            since = last_jump(self.zone, end - LONGEST_FOLD, end - MICRO)
            # In the second pass of a fold, all wall-clock times of the first pass are in the past.
            earlier = end - LONGEST_FOLD if since is None else max(since, end - LONGEST_FOLD)
            offset = max(offset_at(self.zone, end - MICRO), offset_at(self.zone, earlier))
            wall = self.cron.before((end + offset + MICRO).replace(tzinfo=None))
            while wall is not None and (found := self.instant_of(wall, since)) >= end:
                wall = self.cron.before(wall)
            if wall is None:
                return None
            jump = last_jump(self.zone, found - MICRO, end - MICRO)
            if jump is None or wall >= wall_at(self.zone, jump):
                return found
            end = jump


class Listed:
    """Instants that a planner computed."""

    def __init__(self, moments: Iterable[datetime]) -> None:
        self._moments = sorted({_aware(moment) for moment in moments})

    def after(self, moment: datetime) -> datetime | None:
        place = bisect_right(self._moments, moment)
        return self._moments[place] if place < len(self._moments) else None

    def before(self, moment: datetime) -> datetime | None:
        place = bisect_left(self._moments, moment)
        return self._moments[place - 1] if place else None


class Bounded:
    """The instants from `start` to `end`, both included; None leaves that side open."""

    def __init__(self, times: Times, start: datetime | None, end: datetime | None) -> None:
        self._times = times
        self._start, self._end = start, end

    def after(self, moment: datetime) -> datetime | None:
        if self._start is not None:
            moment = max(moment, self._start - MICRO)
        return self._inside(self._times.after(moment))

    def before(self, moment: datetime) -> datetime | None:
        if self._end is not None:
            moment = min(moment, self._end + MICRO)
        return self._inside(self._times.before(moment))

    def _inside(self, found: datetime | None) -> datetime | None:
        if found is None or (self._start is not None and found < self._start):
            return None
        return None if self._end is not None and found > self._end else found


def bounded(times: Times, rule: Rule) -> Times:
    """These instants, as far as they lie between the start and the end of the rule."""
    if rule.start is None and rule.end is None:
        return times
    return Bounded(times, rule.start, rule.end)


def times_of(rule: Rule) -> Times:
    """The instants of a rule. Raises BadOption for a bad expression or time zone."""
    return bounded(endless_times(rule), rule)


@lru_cache(maxsize=16_384)
def endless_times(rule: Rule) -> Times:
    """The instants of a rule as if it had no start and no end."""
    if rule.every is not None:
        return Interval(rule.every, rule.anchor)
    assert rule.cron is not None, "a rule has an expression or an interval"
    cron, zone = parse(rule.cron), zone_of(rule.timezone)
    return ElapsedCron(cron, zone) if cron.elapsed else WallCron(cron, zone)


def shift_of(rule: Rule, name: str) -> timedelta:
    """How long after its plan time a plan is due: the delay, and a share of the jitter. The share
    follows from the schedule's name, so it is the same on every machine and never changes."""
    digest = hashlib.sha256(name.encode()).digest()
    share = int.from_bytes(digest[:8], "big") / 2**64
    return timedelta(seconds=rule.delay, milliseconds=int(rule.jitter * share * 1000))


def between(times: Times, after: datetime, until: datetime) -> Iterator[datetime]:
    """The instants later than `after`, up to and including `until`, computed one by one."""
    moment = times.after(after)
    while moment is not None and moment <= until:
        yield moment
        moment = times.after(moment)


def _aware(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise BadOption("plan time", "a datetime with a time zone", moment)
    return moment.astimezone(UTC)
