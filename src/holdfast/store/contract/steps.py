"""Steps: what running attempts have done and need not do again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.job.ids import JobId
from holdfast.job.signal import Recalled
from holdfast.job.step import Step, StepRecord


class Steps(Protocol):
    """The steps of a job go with it: whoever removes the job removes them, and a requeue begins
    without them. A job that has recorded a step has the tie `STEPS`; no other job is asked for
    steps. `Jobs.finish` writes the records that come with a transition in the same step. A record
    with `undo` gives its job the tie `UNDO`, which stays when a later attempt replaces that record
    by one without."""

    async def record(self, records: Sequence[StepRecord]) -> list[bool]:
        """Write down steps of running attempts; False where the fence is old.

        Of the records of one attempt for one name the first stands, and the others answer True and
        change nothing: a record whose answer was lost may be sent again. A record of a later
        attempt replaces the earlier one. A record with `seconds` waits so long from now.
        """
        ...

    async def load(self, ids: Sequence[JobId]) -> dict[JobId, list[Step]]:
        """The steps of these jobs in the order of their numbers. Jobs without steps are left
        out."""
        ...

    async def recall(self, ids: Sequence[JobId]) -> dict[JobId, Recalled]:
        """The steps and the signals of these jobs, in one look: what an attempt needs that goes on
        where another one left. Jobs that have neither are left out."""
        ...
