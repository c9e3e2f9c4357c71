"""Expires jobs whose deadline has passed, in every live state."""

from __future__ import annotations

from holdfast.background.job_sweep import JobSweep
from holdfast.job.ends import DeadlinePassed
from holdfast.job.record import Live


class DeadlineReconciler(JobSweep):
    """Sleeps until the next deadline. The gap is wider than promotion's: a sweep costs two
    statements, and half a second of delay matters less for a deadline than for a due job."""

    name = "deadline"
    gap = 0.5
    on_due = True

    @property
    def interval(self) -> float:
        return self.options.deadline

    async def find(self, limit: int, after: str | None) -> list[Live]:
        return await self.store.jobs.past_deadline(limit, after)

    def end_of(self, job: Live) -> DeadlinePassed:
        return DeadlinePassed()

    async def due_in(self) -> float | None:
        return await self.store.jobs.next_deadline_in()
