"""The arithmetic of buckets: whether one has room, and when it opens.

The scripts of Postgres and Valkey say the same in their languages; the state machine of
`tests/properties` holds all three to one model.
"""

from __future__ import annotations

import msgspec

from holdfast.limits.model import Settings

ROOMY = 2**31 - 1
"""The room of a bucket that holds nothing up."""
FEWEST_LINES = 16
QUANTUM = 4
"""How many jobs a line gives at its turn, at least. Serving a line costs as much as two jobs."""


class Bucket(msgspec.Struct):
    """One bucket while a claim looks at it. Times are microseconds."""

    name: str
    settings: Settings | None
    retired: bool = False
    in_use: int = 0
    shut_until: int | None = None
    has_waiting: bool = False

    def room(self, now: int) -> int:
        """How many more jobs may begin. A limit that is not defined lets none begin: it must not
        be passed because somebody misspelt it."""
        if self.retired:
            return ROOMY
        if self.settings is None or self.is_shut(now):
            return 0
        return max(0, self.settings.most - self.in_use)

    def is_shut(self, now: int) -> bool:
        return self.shut_until is not None and self.shut_until > now

    def opens_at(self, now: int) -> int | None:
        """When to look again; None where time alone does not open the bucket."""
        if self.room(now):
            return now
        return self.shut_until if self.settings is not None and self.is_shut(now) else None


def turn_size(wanted: int, lines: int) -> int:
    """How many jobs a line gives at its turn, where so many lines share what is wanted."""
    return max(QUANTUM, -(-wanted // max(lines, 1)))
