"""Tells of failed attempts, and who asks for it of the start and the end of every job.

A failed attempt is told to everybody when its handler has ended. Of all other events of a job
nothing is noted and nothing is told while nobody asks for them by name. A subscriber may come and
go while the worker runs. Ends are told when the store has accepted them, so a subscriber never
hears of an end that did not stand.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from holdfast.events import ON_REQUEST
from holdfast.job.state import JobState
from holdfast.job.transition import Transition
from holdfast.store.contract.records import Verdict
from holdfast.worker.attempt import Attempt
from holdfast.worker.executor import Executor
from holdfast.worker.finisher import Finisher
from holdfast.worker.identity import Identity
from holdfast.worker.job_events import JobEvents, Observed
from holdfast.worker.setup import WorkerSetup


def _nothing() -> None:
    """Until there is something to stop."""


class Telling:
    """Listens to the executor and the finisher while somebody asks for job events; to the runner
    always."""

    def __init__(
        self, setup: WorkerSetup, executor: Executor, finisher: Finisher, identity: Identity
    ) -> None:
        self._events = setup.events
        self._told = JobEvents(setup.events)
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
            self._unlisten = self._finisher.listeners.add(self._ended)
        elif not wanted and self._unlisten is not None:
            self._unlisten()
            self._unlisten = None

    def _begun(self, attempt: Attempt) -> None:
        attempt.observed = Observed(time.monotonic())
        self._told.tell_started(attempt.job, attempt.policy, self._identity.id)

    def _ended(self, attempt: Attempt | None, transition: Transition, verdict: Verdict) -> None:
        if attempt is None or not verdict.accepted:
            return
        seen, attempt.observed = attempt.observed, None
        if seen is None:
            if transition.to is JobState.READY or not transition.begun:
                return  # it went back before it began
            seen = Observed(time.monotonic())
        seen.over = attempt.over_at or None
        seen.error, attempt.error = attempt.error, None
        self._told.tell_ended(
            attempt.job, attempt.handler, attempt.policy, self._identity.id, transition, seen
        )

    def failed(self, attempt: Attempt, transition: Transition) -> None:
        """Tell everybody at once that an error ended this attempt. Whether the store accepts that
        is not known yet."""
        self._told.tell_attempt_failed(
            attempt.job,
            attempt.handler,
            attempt.policy,
            self._identity.id,
            transition,
            attempt.error,
        )
        pool = attempt.handler.pool
        if pool is not None and pool.has_news():
            self._events.warning("pool.resting", pool=pool.name, seconds=pool.rest)
