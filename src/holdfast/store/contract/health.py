"""What a store can tell about its own health."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final, Protocol

import msgspec

MISPLACED: Final = "jobs that are not where their record says"
"""The name of a check. While it finds a problem, a recount of the jobs is wrong."""


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


Looked = Callable[[int], None]
"""Hears how many jobs have been looked at so far."""


def tell_nobody(jobs: int) -> None:
    pass


class Health(Protocol):
    """What the store can tell about its own health."""

    async def check(self, *, deep: bool = False, looked: Looked = tell_nobody) -> list[Finding]:
        """Schema, orphaned or doubled rows, bloat, settings that threaten durability. It looks at
        a bounded number of jobs, the oldest and the newest. `deep` looks at every job, some at a
        time: each look is a short read of its own, and `looked` hears of it."""
        ...

    async def repair(self, looked: Looked = tell_nobody) -> int:
        """Put every job where its record says, in a store that lists jobs beside their records.
        Returns how many entries it corrected. A later `check` finds what cannot be corrected."""
        ...
