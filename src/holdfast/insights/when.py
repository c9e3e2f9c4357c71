"""Moments as people write them: `2h` ago, or an ISO date or time."""

from __future__ import annotations

from datetime import datetime, timedelta

from holdfast.clock import utcnow
from holdfast.job.duration import parse_duration


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
