"""Tells subscribers of the start and the end of every job that this worker runs.

Nothing is noted and nothing is told while nobody asks for these events by name. A subscriber may
come and go while the worker runs. Ends are told when the store has accepted them, so a subscriber
never hears of an end that did not stand.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from holdfast.events import ON_REQUEST
from holdfast.job.outcome import Transition
from holdfast.job.state import JobState
from holdfast.store.contract.records import Verdict
from holdfast.worker.attempt import Attempt, Observed
from holdfast.worker.executor import Executor
from holdfast.worker.finisher import Finisher
from holdfast.worker.identity import Identity
from holdfast.worker.setup import WorkerSetup


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
            job = attempt.job
            self._events.debug(
                "job.started",
                job=job.id,
                task=job.task,
                queue=job.queue,
                attempt=job.attempt,
                max_attempts=attempt.policy.retry.max_attempts,
                worker=self._identity.id,
            )

    def _ended(self, attempt: Attempt | None, transition: Transition, verdict: Verdict) -> None:
        if attempt is None or not verdict.accepted:
            return
        seen, attempt.observed = attempt.observed, None
        if seen is None:
            if transition.to is JobState.READY:
                return  # it went back before it began
            seen = Observed(time.monotonic())
        if transition.to is JobState.FAILED:
            self._tell_failed(attempt, transition, seen)
        elif transition.to is JobState.SCHEDULED and transition.error is not None:
            self._tell_retried(attempt, transition, seen)
        else:
            self._tell(attempt, transition, seen)

    def _tell(self, attempt: Attempt, transition: Transition, seen: Observed) -> None:
        to, job = transition.to, attempt.job
        name = (
            "job.succeeded"
            if to is JobState.SUCCEEDED
            else "job.cancelled"
            if to is JobState.CANCELLED
            else "job.expired"
            if to is JobState.EXPIRED
            else "job.suspended"
            if to is JobState.SUSPENDED
            else "job.handed_back"
            if to is JobState.READY
            else "job.snoozed"
        )
        self._events.info(
            name,
            job=job.id,
            task=job.task,
            queue=job.queue,
            attempt=job.attempt,
            max_attempts=attempt.policy.retry.max_attempts,
            worker=self._identity.id,
            seconds=_took(seen),
            reason=transition.reason,
        )

    def _tell_retried(self, attempt: Attempt, transition: Transition, seen: Observed) -> None:
        job, error = attempt.job, transition.error
        assert error is not None
        self._events.warning(
            "job.retried",
            job=job.id,
            task=job.task,
            queue=job.queue,
            attempt=job.attempt,
            max_attempts=attempt.policy.retry.max_attempts,
            worker=self._identity.id,
            seconds=_took(seen),
            error=error.kind,
            message=error.message,
            traceback=error.traceback,
            exception=seen.error,
            retry_in=transition.delay,
        )

    def _tell_failed(self, attempt: Attempt, transition: Transition, seen: Observed) -> None:
        job, error = attempt.job, transition.error
        self._events.error(
            "job.failed",
            job=job.id,
            task=job.task,
            queue=job.queue,
            attempt=job.attempt,
            max_attempts=attempt.policy.retry.max_attempts,
            worker=self._identity.id,
            seconds=_took(seen),
            error=None if error is None else error.kind,
            message=transition.reason if error is None else error.message,
            traceback=None if error is None else error.traceback,
            exception=seen.error,
        )


def _took(seen: Observed) -> float:
    return round((seen.over or time.monotonic()) - seen.began, 6)
