"""What happens to a job: the words by which moves are counted and its life is told."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from holdfast.job.state import ENDED, JobState


class What(StrEnum):
    """Why a job came, went, changed its place, or was changed where it is.

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
    CANCEL_ASKED = "cancel_asked"  # of a running job: its worker is told
    REPRIORITISED = "reprioritised"
    EDITED = "edited"


USUAL = frozenset(
    {What.ENQUEUED, What.CLAIMED, What.SUCCEEDED, What.PROMOTED, What.DELETED, What.PRUNED}
)
"""What leaves no happening: the job itself tells of it, or is gone."""
IN_PLACE = frozenset({What.CANCEL_ASKED, What.REPRIORITISED, What.EDITED})
"""What moves no job, and so is not counted."""
OF_ENDED: Mapping[JobState, What] = {state: What(state.value) for state in ENDED}
