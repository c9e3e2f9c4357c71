"""Queues and their settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from holdfast.store.contract.records import (
    QueueInfo,
    QueueSettings,
)


class Queues(Protocol):
    """Queues: named lines with settings of their own."""

    async def ensure(self, queues: Mapping[str, QueueSettings]) -> None:
        """Add queues that are absent; never overwrites what an operator tuned."""
        ...

    async def pause(self, names: Sequence[str]) -> None:
        """Stop claims from these queues (made if absent); running jobs go on. Workers hear of
        it (PAUSED) and give back what they claimed and have not begun."""
        ...

    async def resume(self, names: Sequence[str]) -> None:
        """Allow claims again, end any cool-down, and wake the workers."""
        ...

    async def tune(self, name: str, settings: QueueSettings) -> None:
        """Replace the settings of a queue (made if absent)."""
        ...

    async def waiting(self) -> Sequence[str]:
        """The names of the queues that have a ready job, in order. It is asked for all day long
        by workers that serve whatever queues there are, so it costs by queues, not by jobs."""
        ...

    async def list(self, names: Sequence[str] = ()) -> list[QueueInfo]:
        """Every queue that is known or has live jobs, by name; or only those named."""
        ...


NONE_STUCK: Mapping[str, int] = {}
