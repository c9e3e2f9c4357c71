"""What is told of single attempts: that one began, how it ended, and that an error ended it.

A worker tells it of the jobs that it claims, and an app of the jobs that it runs eagerly. What the
task hides is hidden here too: a message or a traceback may repeat arguments.
"""

from __future__ import annotations

import time
from typing import Any

from holdfast.events import Events
from holdfast.handlers.registry import Handler
from holdfast.job.ids import WorkerId
from holdfast.job.policy import Policy
from holdfast.job.record import Claimed
from holdfast.job.redaction import Redactor
from holdfast.job.state import JobState
from holdfast.job.transition import Transition

NAMES = {
    JobState.SUCCEEDED: "job.succeeded",
    JobState.CANCELLED: "job.cancelled",
    JobState.EXPIRED: "job.expired",
    JobState.SKIPPED: "job.skipped",
    JobState.SUSPENDED: "job.suspended",
    JobState.READY: "job.handed_back",
    JobState.SCHEDULED: "job.snoozed",
}
"""What is told of an attempt that no error ended, by the state of its job now."""


class Observed:
    """What subscribers of job events want to know of an attempt, while there are any. Times are on
    the monotonic clock. `error` is what the handler raised in this process."""

    __slots__ = ("began", "error", "over")

    def __init__(self, began: float) -> None:
        self.began = began
        self.over: float | None = None
        self.error: BaseException | None = None

    @property
    def seconds(self) -> float:
        """How long the handler ran."""
        return round((self.over or time.monotonic()) - self.began, 6)


class JobEvents:
    """Tells of attempts. `worker` is who runs them; an eager job has none."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def tell_started(self, job: Claimed, policy: Policy, worker: WorkerId | None) -> None:
        if self._events.wants("job.started"):
            self._events.debug("job.started", **_facts(job, policy, worker))

    def tell_ended(
        self,
        job: Claimed,
        handler: Handler,
        policy: Policy,
        worker: WorkerId | None,
        transition: Transition,
        seen: Observed,
    ) -> None:
        facts, seconds = _facts(job, policy, worker), seen.seconds
        if transition.to is JobState.FAILED:
            why = _why(job, handler, transition, seen.error)
            self._events.error("job.failed", **facts, **why, seconds=seconds)
        elif transition.to is JobState.SCHEDULED and transition.error is not None:
            why = _why(job, handler, transition, seen.error)
            retry_in = transition.delay
            self._events.warning("job.retried", **facts, **why, seconds=seconds, retry_in=retry_in)
        else:
            name, reason = NAMES[transition.to], transition.reason
            if reason is not None:
                reason = _redactor(job, handler).text(reason)
            self._events.info(name, **facts, seconds=seconds, reason=reason)

    def tell_attempt_failed(
        self,
        job: Claimed,
        handler: Handler,
        policy: Policy,
        worker: WorkerId | None,
        transition: Transition,
        error: BaseException | None,
    ) -> None:
        """Tell everybody of an error that ended an attempt, if one did: as an error if the job has
        failed for good, as a warning if it is tried again."""
        if transition.error is None:
            return
        facts, why = _facts(job, policy, worker), _why(job, handler, transition, error)
        report = self._events.error if transition.to is JobState.FAILED else self._events.warning
        report("job.attempt_failed", **facts, **why, next=transition.to, retry_in=transition.delay)


def _facts(job: Claimed, policy: Policy, worker: WorkerId | None) -> dict[str, Any]:
    return {
        "job_id": job.id,
        "task": job.task,
        "queue": job.queue,
        "attempt": job.attempt,
        "max_attempts": policy.retry.max_attempts,
        "fence": job.fence,
        "worker": worker,
    }


def _why(
    job: Claimed, handler: Handler, transition: Transition, exception: BaseException | None
) -> dict[str, Any]:
    error, show = transition.error, _redactor(job, handler).text
    message = transition.reason if error is None else error.message
    traceback = None if error is None else error.traceback
    return {
        "error": None if error is None else error.kind,
        "message": None if message is None else show(message),
        "traceback": None if traceback is None else show(traceback),
        "exception": exception,
    }


def _redactor(job: Claimed, handler: Handler) -> Redactor:
    return Redactor(handler.rules, job.args, job.headers)
