"""The transitions that `holdfast.job.outcome.decide` chooses between, written by a job's policy."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import msgspec

from holdfast.job.checks import LONGEST_WAIT
from holdfast.job.ends import Raised
from holdfast.job.policy import Policy
from holdfast.job.record import Claimed, ErrorEntry, Live
from holdfast.job.retry import UniformRandom, exception_names
from holdfast.job.state import JobState
from holdfast.job.text import MESSAGE_LIMIT
from holdfast.job.transition import Transition
from holdfast.job.what import What

TIMEOUT_NAMES = exception_names(TimeoutError)


class Mover(msgspec.Struct, frozen=True):
    """Makes the transitions of one job."""

    job: Claimed | Live
    policy: Policy
    uniform: UniformRandom

    def _to(self, state: JobState, **what: Any) -> Transition:
        job = self.job
        return Transition(job.id, job.fence, state, job.state, ties=job.ties, **what)

    def ended(
        self,
        to: JobState,
        *,
        spend: int = 0,
        crash: int = 0,
        bump: int = 0,
        reason: str | None = None,
        error: ErrorEntry | None = None,
        by: str | None = None,
    ) -> Transition:
        return self._to(
            to,
            spend=spend,
            crash=crash,
            bump=int(bump),
            keep_for=self.policy.retention.keep_for(to),
            reason=reason,
            error=error,
            by=by,
        )

    def waiting(
        self,
        to: JobState,
        delay: float | None,
        reason: str,
        why: What,
        *,
        run_at: datetime | None = None,
        begun: bool = True,
    ) -> Transition:
        return self._to(to, delay=delay, run_at=run_at, reason=reason, why=why, begun=begun)

    def throttled(self, wait: float, reason: str, limit: str | None) -> Transition:
        """A limit that is named shuts for everybody; otherwise the whole queue cools down."""
        how = {"cool": wait} if limit is None else {"drains": limit}
        return self._to(JobState.SCHEDULED, delay=wait, reason=reason, why=What.THROTTLED, **how)

    def failed(self, error: ErrorEntry, *, crash: int = 0, bump: int = 0) -> Transition:
        return self.ended(
            JobState.FAILED, spend=1, crash=crash, bump=bump, reason=error.message, error=error
        )

    def after_failure(self, error: ErrorEntry, end: Raised) -> Transition:
        if not self.policy.retry.covers(end.names):
            return self.failed(error)
        if end.retry_at is not None:
            return self.retried(error, run_at=end.retry_at)
        hinted = end.retry_after is not None and math.isfinite(end.retry_after)
        return self.retried(error, wait_seconds(end.retry_after) if hinted else None)

    def timed_out(self, error: ErrorEntry) -> Transition:
        """The handler may not have heard of it, but it counts as a TimeoutError of its own."""
        if not self.policy.retry.covers(TIMEOUT_NAMES):
            return self.failed(error, bump=1)
        return self.retried(error, bump=1, why=What.TIMED_OUT)

    def retried(
        self,
        error: ErrorEntry,
        delay: float | None = None,
        *,
        run_at: datetime | None = None,
        crash: int = 0,
        bump: int = 0,
        why: What = What.RETRIED,
    ) -> Transition:
        """Scheduled after `delay`, at `run_at`, or by the policy's backoff; failed if the job has
        no attempt left."""
        spent = self.job.attempts + 1
        if not self.policy.retry.allows(spent):
            return self.failed(error, crash=crash, bump=bump)
        if delay is None and run_at is None:
            delay = self.policy.retry.delay(spent, self.uniform)
        reason = f"retry after: {error.message}"[:MESSAGE_LIMIT]
        return self._to(
            JobState.SCHEDULED,
            spend=1,
            crash=crash,
            bump=bump,
            delay=delay,
            run_at=run_at,
            reason=reason,
            error=error,
            why=why,
        )

    def reclaimed(self, why: str, suspected: bool) -> Transition:
        """A suspected job counts a crash, but never its last one: a job fails for its crashes only
        when it is known to have caused one."""
        crash = int(suspected and self.job.crashes + 1 < self.policy.max_crashes)
        begun = not self.job.ahead
        return self._to(JobState.READY, crash=crash, bump=1, reason=why, why=What.LOST, begun=begun)

    def crashed(self, error: ErrorEntry) -> Transition:
        """A job that keeps killing its worker is put aside, whatever attempts are left."""
        if self.job.crashes + 1 >= self.policy.max_crashes:
            return self.failed(error, crash=1, bump=1)
        return self.retried(error, crash=1, bump=1, why=What.LOST)


def wait_seconds(seconds: float | None) -> float:
    """The wait that a handler asked for. Nonsense (negative, NaN) means now, and is no error. A
    wait is cut to what a store's clock can count: a longer one could never be written."""
    if seconds is None or not math.isfinite(seconds):
        return 0.0
    return min(max(0.0, float(seconds)), LONGEST_WAIT)
