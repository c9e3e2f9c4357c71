"""Expires jobs whose deadline has passed, in every live state.

A deadline that bounds only the start means nothing to a job that has begun. When it passes, it is
lifted, so that no later sweep finds the job again.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.background.counters import Swept
from holdfast.background.job_sweep import JobSweep
from holdfast.job.ends import DeadlinePassed
from holdfast.job.ids import JobId
from holdfast.job.outcome import has_started_in_time
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

    async def mend_page(self, page: Sequence[Live]) -> Swept:
        started = [job for job in page if has_started_in_time(job)]
        late = [job for job in page if not has_started_in_time(job)] if started else page
        lifted = await self.store.jobs.lift_deadlines(await self._surely_started(started))
        tally = await self.mend(late, self.end_of)
        return tally + Swept(found=len(started), mended=len(lifted))

    async def _surely_started(self, started: Sequence[Live]) -> list[JobId]:
        """A worker that lives has expired by now what it had claimed and not begun in time. A
        worker that is gone may have begun nothing of what it had claimed ahead: such a job is left
        for `lapsed_leases`."""
        doubtful = any(job.ahead for job in started)
        alive = {worker.id for worker in await self.store.workers.find()} if doubtful else set()
        return [job.id for job in started if not job.ahead or job.worker_id in alive]

    async def due_in(self) -> float | None:
        return await self.store.jobs.next_deadline_in()
