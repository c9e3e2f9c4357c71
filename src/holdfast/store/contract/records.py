"""What the verbs about jobs take and answer. Those of another noun stand beside its verbs."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum

import msgspec

from holdfast.job.ids import JobId, WorkerId
from holdfast.job.record import Job, Progress
from holdfast.job.state import JobState
from holdfast.job.transition import Transition


class Capability(StrEnum):
    """What a kind of store may lack; a caller asks before it relies on one."""

    JOIN_TRANSACTION = "join the caller's transaction"
    MANY_PROCESSES = "be shared by several processes"
    QUEUE_TOTALS = "count the running jobs of a queue"
    HAND_OVER = "hand a released node to the worker that ended the one before it"


ALL = 2**31 - 1


class Want(msgspec.Struct, frozen=True):
    """Room for `limit` more jobs of one queue. The first `free` of them begin at once; the others
    are claimed ahead, and the store marks them so."""

    queue: str
    limit: int
    free: int = ALL


class Room(msgspec.Struct, frozen=True, gc=False):
    """A worker that could begin one more job of any of these queues and tasks at once."""

    worker: WorkerId
    queues: Collection[str]
    tasks: Collection[str]


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """Whether one Transition was applied; if not, where the job really is. `state` is None when the
    store holds no such job."""

    id: JobId
    accepted: bool
    state: JobState | None = None
    fence: int | None = None

    def is_held_up(self, move: Transition) -> bool:
        """Whether the move was refused because somebody has locked the job, which is as it was."""
        here = (self.state, self.fence) == (move.source, move.fence)
        return here and not self.accepted

    def is_repetition(self, move: Transition) -> bool:
        """Whether the move was refused because the store has applied it before. A worker to which
        the answer to a write was lost, and that writes again, knows its own move by that."""
        return self.state is move.to and self.fence == move.fence + move.bump


class Promoted(msgspec.Struct, frozen=True):
    """How many due jobs became ready, in which queues, and when the next is due."""

    count: int
    queues: tuple[str, ...]
    next_due_in: float | None


class ProgressReport(msgspec.Struct, frozen=True):
    """Progress of one running attempt; refused when its fence is old.

    A field that is None leaves what was there before.
    """

    id: JobId
    fence: int
    progress: Progress


class SpendReport(msgspec.Struct, frozen=True):
    """What one running attempt has spent so far, by limit; refused when its fence is old. These are
    totals: the same report twice counts once. Limits that it does not name keep theirs."""

    id: JobId
    fence: int
    spent: dict[str, int]


class Outcome(msgspec.Struct, frozen=True):
    """How a job stands, for those who wait for its result. `fingerprint` is that of the error
    which ended it."""

    id: JobId
    state: JobState
    result: str | None = None
    reason: str | None = None
    fingerprint: str | None = None


class Page(msgspec.Struct, frozen=True):
    """Some jobs, newest first, and where the next page starts.

    `next_cursor` is None if there are no more jobs. A page looks at a bounded number of jobs
    (`looked_at`). `complete` is False if it stopped there with fewer jobs than were asked for: it
    may hold no job at all, and the jobs that are missing come after its cursor. `reached` is then
    when the oldest job that it looked at was created. `unsearched`: at least so many of the jobs
    are encrypted with keys that this program does not have, so nobody knows whether the filter
    means them.
    """

    jobs: tuple[Job, ...]
    next_cursor: str | None
    looked_at: int = 0
    reached: datetime | None = None
    complete: bool = True
    unsearched: int = 0
