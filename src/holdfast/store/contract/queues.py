"""Queues and their settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from holdfast.store.contract.records import (
    Paused,
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
        it (PAUSED) and give back what they claimed and have not begun.

        The name `EVERY_QUEUE` stops claims from all queues, also from those to come, and
        `jobs_of(task)` those of one task's jobs. A queue that is paused itself stays so when
        they are resumed."""
        ...

    async def paused(self) -> Paused:
        """What is paused beyond single queues."""
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

    async def find(self, names: Sequence[str] = ()) -> list[QueueInfo]:
        """Every queue that is known or has jobs, by name; or only those named. `EVERY_QUEUE`
        and `jobs_of(task)` are no queues, and never listed."""
        ...
