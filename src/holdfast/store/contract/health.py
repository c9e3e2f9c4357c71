"""What a store can tell about its own health."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import msgspec


class Severity(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(msgspec.Struct, frozen=True):
    """One thing `doctor` looked at: what it saw, and what to do about it."""

    check: str
    severity: Severity
    saw: str
    advice: str = ""


class Health(Protocol):
    """What the store can tell about its own health."""

    async def check(self, *, deep: bool = False) -> list[Finding]:
        """Schema, orphaned or doubled rows, bloat, settings that threaten durability. It looks at
        a bounded number of jobs, the oldest and the newest. `deep` allows a store to read all."""
        ...
