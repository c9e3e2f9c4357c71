"""Workers, their leases, and who leads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.job.ids import WorkerId
from holdfast.store.contract.facts import NO_FACTS, WorkerFacts
from holdfast.store.contract.records import (
    Beat,
    Held,
    News,
    WorkerInfo,
)


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
        facts: WorkerFacts = NO_FACTS,
    ) -> Beat:
        """Extend the worker's lease, also one that has lapsed, and say which of its attempts
        need attention, and whether it is to drain. `facts` are what `WorkerInfo.facts` shows from
        now on.

        `caught_up` says that all ends which the worker had decided when it heard the answer to
        the beat before this one are written by now. The store then notes the time of that beat:
        what it knows of running jobs up to there is all that their worker will say."""
        ...

    async def poll(self, worker: WorkerId, queues: Sequence[str], tasks: Sequence[str]) -> News:
        """Say in one look what a worker of these queues and tasks may not have been woken
        for. It is asked for all day long, so it costs no more than a claim of nothing."""
        ...

    async def request_drain(self, ids: Sequence[WorkerId]) -> list[WorkerId]:
        """Tell these workers to leave, and wake each of them (`Topic.CANCEL`): every answer to a
        beat says so from now on. Answers those that are registered, also lapsed ones. Of several
        requests the time of the first is kept."""
        ...

    async def deregister(self, worker: WorkerId, facts: WorkerFacts | None = None) -> None:
        """Remove a worker that is leaving; what it still holds becomes reclaimable. Its counts are
        kept: those of these last facts, or else those of its last beat."""
        ...

    async def counts(self) -> dict[str, int]:
        """What all workers have counted together, by name, also those that have left or were swept.
        A number never goes down."""
        ...

    async def find(self) -> list[WorkerInfo]:
        """All workers, live or lapsed but not yet swept, oldest first."""
        ...

    async def sweep(self, limit: int, lapsed_for: float) -> int:
        """Remove workers whose lease lapsed longer ago than this and that hold no job; their counts
        are kept. Shortens every lease that ends later than its length from now: the clock was set
        back."""
        ...

    async def lead(self, role: str, worker: WorkerId, ttl: float) -> bool:
        """Take or extend the leadership of a role; False if another holds it."""
        ...

    async def stop_leading(self, role: str, worker: WorkerId) -> None:
        """Give a role up, if it is held; wakes the others (`Topic.LEAD`, the role)."""
        ...
