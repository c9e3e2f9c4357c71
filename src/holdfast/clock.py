"""Time: aware UTC everywhere, and a clock that tests can move.

The store's clock decides. In production that is the clock of the database
server; a `ManualClock` given to a store replaces it in every statement, so a
test moves time instead of sleeping.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Says what time a store should believe, or None to use its own clock."""

    def override(self) -> datetime | None: ...


class SystemClock:
    """Leaves time to the store."""

    def override(self) -> datetime | None:
        return None


class ManualClock:
    """A clock that only moves when told to.

    >>> clock = ManualClock(datetime(2030, 1, 1, tzinfo=UTC))
    >>> clock.advance(minutes=5).isoformat()
    '2030-01-01T00:05:00+00:00'
    """

    def __init__(self, start: datetime | None = None) -> None:
        self.now = start or datetime.now(UTC)

    def override(self) -> datetime | None:
        return self.now

    def advance(
        self, seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0
    ) -> datetime:
        self.now += timedelta(seconds=seconds, minutes=minutes, hours=hours)
        return self.now


def utcnow() -> datetime:
    """This machine's clock, for display and for local waits; never for decisions."""
    return datetime.now(UTC)
