"""The states of a job, and the legal moves between them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from holdfast.errors import IllegalMove


class JobState(StrEnum):
    """Where a job is. Each state is a place in the store."""

    BLOCKED = "blocked"
    SCHEDULED = "scheduled"
    READY = "ready"
    RUNNING = "running"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SKIPPED = "skipped"


S = JobState
SUSPENDED, SUCCEEDED = S.SUSPENDED, S.SUCCEEDED
"""As plain names, for what is asked of every job: to look a member up in its class takes Python
3.11 ten times as long."""
LIVE = frozenset({S.BLOCKED, S.SCHEDULED, S.READY, S.RUNNING, S.SUSPENDED})
WAITING = LIVE - {S.RUNNING}
ENDED = frozenset(S) - LIVE
UNDONE = frozenset({S.FAILED, S.CANCELLED, S.EXPIRED})
"""Ends after which what a job has done is undone, where it said how."""
SOONEST = (S.RUNNING, S.SCHEDULED, S.READY, S.SUSPENDED, S.BLOCKED)
"""The live states, those first that a job leaves soonest: the order in which jobs are named."""
UNTIMED = WAITING - {S.READY, S.SCHEDULED, S.SUSPENDED}
"""Where a job waits until somebody lets it go on: no clock moves it. Each store treats these places
alike, and a job that becomes ready out of one of them arrives as if it were new."""

TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    S.BLOCKED: frozenset({S.READY, S.SCHEDULED, S.CANCELLED, S.EXPIRED, S.SKIPPED}),
    S.SCHEDULED: frozenset({S.READY, S.CANCELLED, S.EXPIRED}),
    S.READY: frozenset({S.RUNNING, S.SCHEDULED, S.CANCELLED, S.EXPIRED}),
    S.RUNNING: frozenset(
        LIVE - {S.BLOCKED, S.RUNNING} | {S.SUCCEEDED, S.FAILED, S.CANCELLED, S.EXPIRED, S.SKIPPED}
    ),
    # A job that waits for its flow ends as the flow does.
    S.SUSPENDED: frozenset({S.READY, S.SUCCEEDED, S.FAILED, S.CANCELLED, S.EXPIRED}),
    # An ended job never changes, except by an operator's requeue.
    **{ended: frozenset({S.READY}) for ended in ENDED},
}


def require_legal(source: JobState, to: JobState) -> None:
    if to not in TRANSITIONS[source]:
        raise IllegalMove(source, to)
