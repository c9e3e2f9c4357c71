"""Ends attempts that ran past their timeout although their worker is alive.

Workers enforce timeouts themselves. This reconciler catches the attempts of a worker whose event
loop is blocked or whose thread cannot be stopped. It waits `timeout_slack` longer than the timeout,
because the worker knows more about what happened and should end the attempt if it can.
"""

from __future__ import annotations

from holdfast.background.job_sweep import JobSweep
from holdfast.job.ends import TimedOut
from holdfast.job.policy import decode_policy
from holdfast.job.record import Live


class AttemptTimeoutReconciler(JobSweep):
    """Sweeps attempts that ran past their timeout."""

    name = "attempt_timeout"

    @property
    def interval(self) -> float:
        return self.options.attempt_timeout

    async def find(self, limit: int, after: str | None) -> list[Live]:
        return await self.store.jobs.overdue_attempts(limit, after, self.options.timeout_slack)

    def end_of(self, job: Live) -> TimedOut:
        return TimedOut(decode_policy(job.policy).timeout or 0.0)
