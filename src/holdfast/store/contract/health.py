"""What a store can tell about its own health."""

from __future__ import annotations

from typing import Protocol

from holdfast.store.contract.records import (
    Finding,
)


class Health(Protocol):
    """What the store can tell about its own health."""

    async def check(self) -> list[Finding]:
        """Schema, orphaned or doubled rows, bloat, settings that threaten durability."""
        ...
