"""What moves a job: the words by which moves are counted."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from holdfast.job.state import ENDED, JobState


class What(StrEnum):
    """Why a job came, went, or changed its place.

    A move to an ended state is always counted under the word of that state. A job that fails for
    good because its attempt timed out is `failed`; one that is tried again is `timed_out`.
    """

    ENQUEUED = "enqueued"
    CLAIMED = "claimed"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SKIPPED = "skipped"
    RETRIED = "retried"  # the handler raised, and the job has attempts left
    TIMED_OUT = "timed_out"
    LOST = "lost"  # its worker died, or was not heard of
    SNOOZED = "snoozed"
    THROTTLED = "throttled"
    SUSPENDED = "suspended"
    HANDED_BACK = "handed_back"
    PUT_OFF = "put_off"  # this worker cannot run it: another may
    PROMOTED = "promoted"  # its time has come
    RELEASED = "released"  # what it was blocked by has gone
    RESUMED = "resumed"
    RESCHEDULED = "rescheduled"
    REQUEUED = "requeued"
    MOVED = "moved"  # to another queue: it leaves one and comes to the other
    DELETED = "deleted"
    PRUNED = "pruned"


OF_ENDED: Mapping[JobState, What] = {state: What(state.value) for state in ENDED}
