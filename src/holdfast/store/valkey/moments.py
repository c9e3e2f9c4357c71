"""Times as the store keeps them: whole microseconds since 1970 UTC."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from functools import lru_cache

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
SECOND = 1_000_000
# The last moment a datetime can say. Numbers of this size are rounded on their way through Lua.
LATEST = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND


def to_micros(moment: datetime) -> int:
    return (moment - EPOCH) // MICROSECOND


@lru_cache(maxsize=512)
def to_datetime(micros: int) -> datetime:
    """Cached: the jobs of one claim share a moment, and the jobs of one enqueue share another."""
    return EPOCH + timedelta(microseconds=min(int(micros), LATEST))


def to_optional_datetime(micros: int | bool) -> datetime | None:
    """None for False, with which a row says that it has no such moment."""
    return None if micros is False else to_datetime(micros)


def finite(seconds: float | None) -> float | None:
    """Seconds as a script can take them: infinity becomes a number beyond any calendar, which the
    script cuts to the calendar's end."""
    if seconds is None or math.isfinite(seconds):
        return seconds
    return float(LATEST)
