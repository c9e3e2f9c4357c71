"""What time does to jobs; for reconcilers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.job.ids import JobId
from holdfast.job.record import Live
from holdfast.store.contract.records import Promoted


class Sweeping(Protocol):
    async def lapsed_leases(self, limit: int, after: str | None = None) -> list[Live]:
        """Running jobs whose worker is missing or whose lease has lapsed, by id."""
        ...

    async def overdue_attempts(
        self, limit: int, after: str | None = None, slack: float = 0.0
    ) -> list[Live]:
        """Running jobs past their attempt timeout by more than `slack` seconds, by id.

        Only those whose worker is missing or had written, by a moment later than that, all
        the ends it had decided (see `Workers.heartbeat`)."""
        ...

    async def past_deadline(self, limit: int, after: str | None = None) -> list[Live]:
        """Live jobs whose deadline has passed, by id; entries of ended jobs are dropped.
        A running job under the same condition as in `overdue_attempts`."""
        ...

    async def lift_deadlines(self, ids: Sequence[JobId]) -> list[JobId]:
        """Let live jobs go on without a deadline; returns those that had one."""
        ...

    async def next_deadline_in(self) -> float | None:
        """Seconds until the next deadline of a live job, or None."""
        ...

    async def promote_due(self, limit: int) -> Promoted:
        """Make ready what is due: scheduled jobs, and suspended ones whose timer ended.
        Earliest due first, then by id; workers of their queues are woken."""
        ...

    async def due(self, limit: int, after: str | None = None) -> list[JobId]:
        """What `promote_due` would make ready, by id."""
        ...

    async def promote(self, ids: Sequence[JobId]) -> int:
        """Make ready those of these jobs that are due; answers how many. For a promoter that
        has to find out which job breaks its batch."""
        ...

    async def prune(self, limit: int) -> int:
        """Remove up to `limit` ended jobs whose time to be kept is over."""
        ...
