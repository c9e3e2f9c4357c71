"""Takes back the jobs of workers that died.

Nothing announces a death, so this one looks all the time: a lost job is back
within its lease plus one interval. The store checks again, in the step that reclaims,
that the worker is still gone: one that came back in time keeps its jobs.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.ends import WorkerLost
from holdfast.job import Live
from holdfast.outcome import Transition
from holdfast.reconcile.job_sweep import JobSweep
from holdfast.store.records import Verdict


class LeaseExpiry(JobSweep):
    name = "lease_expiry"
    on_fewer = True

    @property
    def interval(self) -> float:
        return self.options.lease_expiry

    async def find(self, limit: int, after: str | None) -> list[Live]:
        return await self.store.jobs.expired_leases(limit, after)

    def end_of(self, job: Live) -> WorkerLost:
        return WorkerLost()

    async def apply(self, moves: Sequence[Transition]) -> list[Verdict]:
        return await self.store.jobs.reclaim(moves)
