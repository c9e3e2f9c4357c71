"""Tells subscribers of the start and the end of every job that this worker runs.

Nothing is noted and nothing is told while nobody asks for these events by name. A subscriber may
come and go while the worker runs. Ends are told when the store has accepted them, so a subscriber
never hears of an end that did not stand.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from holdfast.events import ON_REQUEST
from holdfast.job.outcome import Transition
from holdfast.job.state import JobState
from holdfast.store.contract.records import Verdict
from holdfast.worker.attempt import Attempt, Observed
from holdfast.worker.executor import Executor
from holdfast.worker.finisher import Finisher
from holdfast.worker.identity import Identity
from holdfast.worker.setup import WorkerSetup

NAMES = {
    JobState.SUCCEEDED: "job.succeeded",
    JobState.CANCELLED: "job.cancelled",
    JobState.EXPIRED: "job.expired",
    JobState.SUSPENDED: "job.suspended",
    JobState.READY: "job.handed_back",
    JobState.SCHEDULED: "job.snoozed",
}
"""What is told of an attempt that no error ended, by the state of its job now."""


def _nothing() -> None:
    """Until there is something to stop."""


class Telling:
    """Listens to the executor and the finisher while somebody asks for job events."""

    def __init__(
        self, setup: WorkerSetup, executor: Executor, finisher: Finisher, identity: Identity
    ) -> None:
        self._events = setup.events
        self._executor = executor
        self._finisher = finisher
        self._identity = identity
        self._unwatch: Callable[[], None] = _nothing
        self._unlisten: Callable[[], None] | None = None

    def start(self) -> None:
        self._unwatch = self._events.on_wish(self._attend)
        self._attend()

    def stop(self) -> None:
        self._unwatch()
        self._listen(False)

    def _attend(self) -> None:
        self._listen(any(map(self._events.wants, ON_REQUEST)))

    def _listen(self, wanted: bool) -> None:
        self._executor.on_begin = self._begun if wanted else None
        if wanted and self._unlisten is None:
            self._unlisten = self._finisher.listen(self._ended)
        elif not wanted and self._unlisten is not None:
            self._unlisten()
            self._unlisten = None

    def _begun(self, attempt: Attempt) -> None:
        attempt.observed = Observed(time.monotonic())
        if self._events.wants("job.started"):
            self._events.debug("job.started", **self._facts(attempt))

    def _ended(self, attempt: Attempt | None, transition: Transition, verdict: Verdict) -> None:
        if attempt is None or not verdict.accepted:
            return
        seen, attempt.observed = attempt.observed, None
        if seen is None:
            if transition.to is JobState.READY:
                return  # it went back before it began
            seen = Observed(time.monotonic())
        facts = {**self._facts(attempt), "seconds": _took(seen)}
        if transition.to is JobState.FAILED:
            self._events.error("job.failed", **facts, **_why(transition, seen))
        elif transition.to is JobState.SCHEDULED and transition.error is not None:
            why = _why(transition, seen)
            self._events.warning("job.retried", **facts, **why, retry_in=transition.delay)
        else:
            self._events.info(NAMES[transition.to], **facts, reason=transition.reason)

    def _facts(self, attempt: Attempt) -> dict[str, Any]:
        job = attempt.job
        return {
            "job": job.id,
            "task": job.task,
            "queue": job.queue,
            "attempt": job.attempt,
            "max_attempts": attempt.policy.retry.max_attempts,
            "worker": self._identity.id,
        }


def _took(seen: Observed) -> float:
    return round((seen.over or time.monotonic()) - seen.began, 6)


def _why(transition: Transition, seen: Observed) -> dict[str, Any]:
    error = transition.error
    return {
        "error": None if error is None else error.kind,
        "message": transition.reason if error is None else error.message,
        "traceback": None if error is None else error.traceback,
        "exception": seen.error,
    }
