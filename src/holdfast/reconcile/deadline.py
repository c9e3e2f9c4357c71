"""Expires jobs whose deadline has passed, in whatever live state they are."""

from __future__ import annotations

from holdfast.background.job_sweep import JobSweep
from holdfast.job.ends import DeadlinePassed
from holdfast.job.record import Live


class Deadline(JobSweep):
    """Sleeps until the next deadline. A sweep is two statements and a deadline bears a
    moment's delay better than a due time, hence the wider gap."""

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
