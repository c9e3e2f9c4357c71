"""Times as people write them: `90s`, `2h`, or an ISO date or time."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from holdfast.clock import utcnow

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d|w)?")


def parse_duration(text: str) -> float | None:
    """Seconds, or None when the text is no duration.

    >>> parse_duration("90"), parse_duration("1.5h"), parse_duration("soon")
    (90.0, 5400.0, None)
    """
    match = _DURATION.fullmatch(text.strip())
    return None if match is None else float(match[1]) * _UNITS[match[2] or "s"]


def parse_moment(text: str, now: datetime | None = None) -> datetime | None:
    """A moment: how long ago it was (`2h`), or an ISO date or time. A time without a zone is local.
    None if the text is neither."""
    passed = parse_duration(text)
    try:
        if passed is not None:
            return (now or utcnow()) - timedelta(seconds=passed)
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):  # no time, or none that the calendar has
        return None
