"""Workers, their leases, and who leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from holdfast.job.ids import WorkerId
from holdfast.store.contract.records import (
    Beat,
    Held,
    News,
    WorkerInfo,
)

NONE_STUCK: Mapping[str, int] = {}


class Workers(Protocol):
    """Workers and the leases they hold."""

    async def register(self, worker: WorkerInfo, lease: float) -> None:
        """Add a worker whose lease ends `lease` seconds from now."""
        ...

    async def heartbeat(
        self,
        worker: WorkerId,
        lease: float,
        held: Sequence[Held],
        caught_up: bool = True,
        stuck: Mapping[str, int] = NONE_STUCK,
    ) -> Beat:
        """Extend the worker's lease, also one that has lapsed, and say which of its attempts
        need attention. `stuck` is what `WorkerInfo.stuck` shows from now on.

        `caught_up` says that all ends which the worker had decided when it heard the answer to
        the beat before this one are written by now. The store then notes the time of that beat:
        what it knows of running jobs up to there is all that their worker will say."""
        ...

    async def poll(self, worker: WorkerId, queues: Sequence[str], tasks: Sequence[str]) -> News:
        """Say in one look what a worker of these queues and tasks may not have been woken
        for. It is asked for all day long, so it costs no more than a claim of nothing."""
        ...

    async def deregister(self, worker: WorkerId) -> None:
        """Remove a worker that is leaving; what it still holds becomes reclaimable."""
        ...

    async def find(self) -> list[WorkerInfo]:
        """All workers, live or lapsed but not yet swept, oldest first."""
        ...

    async def sweep(self, limit: int, lapsed_for: float) -> int:
        """Remove workers whose lease lapsed longer ago than this and that hold no job.
        Shortens every lease that ends later than its length from now: the clock was set back."""
        ...

    async def lead(self, role: str, worker: WorkerId, ttl: float) -> bool:
        """Take or extend the leadership of a role; False if another holds it."""
        ...

    async def stop_leading(self, role: str, worker: WorkerId) -> None:
        """Give a role up, if it is held; wakes the others (`Topic.LEAD`, the role)."""
        ...
