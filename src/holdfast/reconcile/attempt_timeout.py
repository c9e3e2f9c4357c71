"""Ends attempts that outlived their timeout although their worker still lives.

Workers enforce timeouts themselves; this is the net below them, for one whose
loop is blocked or whose thread cannot be stopped. The slack leaves the worker
the first word, which knows more about what happened.
"""

from __future__ import annotations

from holdfast.background.job_sweep import JobSweep
from holdfast.job.ends import TimedOut
from holdfast.job.policy import decode_policy
from holdfast.job.record import Live


class AttemptTimeout(JobSweep):
    name = "attempt_timeout"

    @property
    def interval(self) -> float:
        return self.options.attempt_timeout

    async def find(self, limit: int, after: str | None) -> list[Live]:
        return await self.store.jobs.overdue_attempts(limit, after, self.options.timeout_slack)

    def end_of(self, job: Live) -> TimedOut:
        return TimedOut(decode_policy(job.policy).timeout or 0.0)
