"""What can be known about jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.job.happening import Happening
from holdfast.job.ids import JobId
from holdfast.job.record import Job, Live
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.records import Outcome, Page


class WalkBound(msgspec.Struct, frozen=True):
    """How far a page looks: at no more than so many `jobs` (None: as many as the store reads in
    some tens of milliseconds, if they are in memory), and at no others once `seconds` are over."""

    jobs: int | None = None
    seconds: float = 0.05


USUAL_BOUND = WalkBound()


class ReadingById(Protocol):
    async def get(self, ids: Sequence[JobId]) -> list[Job]:
        """Whole records with error history (oldest first), in any order; unknown ids
        are left out."""
        ...

    async def live(self, ids: Sequence[JobId]) -> list[Live]:
        """Those of the given jobs that are live, in any order."""
        ...

    async def outcomes(self, ids: Sequence[JobId]) -> list[Outcome]:
        """The outcomes of those that have ended, in any order."""
        ...

    async def life(self, ids: Sequence[JobId]) -> list[Happening]:
        """What happened to these jobs. Those of one job stand in the order in which they happened;
        the jobs in any order."""
        ...


class Reading(ReadingById, Protocol):
    async def ahead(self, job_id: JobId) -> int:
        """How many ready jobs of its queue stand before a ready job, counted up to 1000;
        0 for a job that is not ready."""
        ...

    async def page(
        self, which: JobFilter, limit: int, cursor: str | None = None, look: WalkBound = USUAL_BOUND
    ) -> Page:
        """Jobs newest first, every filter applied before the limit; `errors` holds the
        newest entry only. The cursor stays right while jobs come, move and go.

        It looks only as far as `look` says. So a page of a rare filter may be incomplete, but each
        page looks at some jobs. Who follows the cursors until there is none gets every job that the
        filter means.
        """
        ...

    async def count(self, which: JobFilter) -> dict[JobState, int]:
        """How many jobs there are by state; states with none are left out."""
        ...
