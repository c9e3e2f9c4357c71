"""Cron expressions on the wall clock, where there is no daylight saving.

`cronsim` parses the expression: five fields or six (seconds first), names, `L`, `LW` and `#`. It
only ever gets naive wall-clock times. `rule.py` decides what a time zone makes of them, by rules of
our own that do not change with a library.
"""

from __future__ import annotations

import re
from copy import copy
from datetime import datetime
from functools import lru_cache

from cronsim import CronSim, CronSimError

from holdfast.errors import BadOption

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
EXPECTED = (
    "a cron expression of 5 fields (minute hour day month weekday), 6 fields (second first) "
    "or one of " + ", ".join(ALIASES)
)
RANGE_OF_ONE = re.compile(r"\b(\w+)-\1/0*[1-9]\d*\b", re.IGNORECASE)
"""A step stays within its range, as in Vixie cron. cronsim takes a range of one value for a start
without an end: it reads `6-6/12` as `6/12`."""
EXAMPLE_TIME = datetime(2000, 1, 1)  # noqa: DTZ001 - wall-clock times have no zone here


class Cron:
    """One expression. It matches wall-clock times. Both searches exclude the time from which they
    start."""

    __slots__ = ("_backward", "_forward", "every_hour", "text")

    def __init__(self, text: str) -> None:
        fields = RANGE_OF_ONE.sub(r"\1", ALIASES.get(text.strip().lower(), text))
        try:
            self._forward = CronSim(fields, EXAMPLE_TIME)
            self._backward = CronSim(fields, EXAMPLE_TIME, reverse=True)
        except (CronSimError, AssertionError, ValueError) as error:
            raise BadOption("cron", f"{EXPECTED} ({error})", text) from None
        self.text = text
        self.every_hour = self._forward.hours >= set(range(24))
        if self.after(EXAMPLE_TIME) is None:
            raise BadOption("cron", "an expression that matches some day", text)

    def after(self, wall: datetime) -> datetime | None:
        """The first match later than this, or None if there is none in the next fifty years."""
        return _first(self._forward, wall.replace(microsecond=0))

    def before(self, wall: datetime) -> datetime | None:
        """The last match earlier than this, or None if there was none in fifty years."""
        return _first(self._backward, wall)


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
