"""What a store can tell about its own health."""

from __future__ import annotations

from typing import Protocol

from holdfast.store.contract.records import (
    Finding,
)


class Health(Protocol):
    """What the store can tell about its own health."""

    async def check(self, *, deep: bool = False) -> list[Finding]:
        """Schema, orphaned or doubled rows, bloat, settings that threaten durability. It looks at
        a bounded number of jobs, the oldest and the newest. `deep` allows a store to read all."""
        ...
