"""Cron expressions on the wall clock, where there is no daylight saving.

`cron_text.py` reads the text, `cronsim` searches: it only ever gets naive wall-clock times.
`rule.py` decides what a time zone makes of them, by rules of our own that do not change with a
library.
"""

from __future__ import annotations

from calendar import monthrange
from copy import copy
from datetime import date, datetime
from functools import lru_cache

from cronsim import CronSim, CronSimError

from holdfast.errors import BadOption
from holdfast.schedule.cron_text import EXPECTED, CronText, SpecialDay, read_text

EXAMPLE_TIME = datetime(2000, 1, 1)  # noqa: DTZ001 - wall-clock times have no zone here


class Cron:
    """One expression. It matches wall-clock times. Both searches exclude the time from which they
    start. `elapsed`: it means elapsed time, because it matches every hour, or because `*` stands
    for its minutes or seconds."""

    __slots__ = ("_backward", "_forward", "elapsed", "text")

    def __init__(self, text: str) -> None:
        read = read_text(text)
        try:
            self._forward = _Search(read)
            self._backward = _Search(read, reverse=True)
        except CronSimError:
            raise BadOption("cron", "an expression that matches some day", text) from None
        except (AssertionError, ValueError) as error:
            raise BadOption("cron", f"{EXPECTED} ({error})", text) from None
        self.text = text
        self.elapsed = read.elapsed or self._forward.hours >= set(range(24))
        if self.after(EXAMPLE_TIME) is None:
            raise BadOption("cron", "an expression that matches some day", text)

    def after(self, wall: datetime) -> datetime | None:
        """The first match later than this, or None if there is none in the next fifty years."""
        return _first(self._forward, wall.replace(microsecond=0))

    def before(self, wall: datetime) -> datetime | None:
        """The last match earlier than this, or None if there was none in fifty years."""
        return _first(self._backward, wall)


class _Search(CronSim):
    """cronsim's search, which also knows special days."""

    def __init__(self, read: CronText, *, reverse: bool = False) -> None:
        super().__init__(read.text, EXAMPLE_TIME, reverse)
        self._special = read.special
        if read.only_special:
            self.days = set()

    def match_dom(self, d: date) -> bool:
        return super().match_dom(d) or any(_is(special, d) for special in self._special)


def _is(special: SpecialDay, d: date) -> bool:
    last = monthrange(d.year, d.month)[1]
    day = last - special.back if special.day is None else special.day
    if not 1 <= day <= last:
        return False  # the month has no such day
    return d.day == (_nearest_weekday(d.replace(day=day), last) if special.nearest else day)


def _nearest_weekday(d: date, last: int) -> int:
    """The day from Monday to Friday that is nearest to this day, in its own month."""
    match d.isoweekday():
        case 6:
            return d.day - 1 if d.day > 1 else d.day + 2
        case 7:
            return d.day + 1 if d.day < last else d.day - 2
        case _:
            return d.day


@lru_cache(maxsize=16_384)
def parse(text: str) -> Cron:
    """Thousands of schedules share few expressions, so each expression is parsed once."""
    return Cron(text)


def _first(search: CronSim, start: datetime) -> datetime | None:
    own = copy(search)
    own.dt = start.replace(microsecond=0)
    own.skip_initial_tick = bool(start.microsecond)
    try:
        return next(own)
    except (StopIteration, OverflowError, ValueError):
        return None  # the calendar ends, or nothing matches for fifty years
