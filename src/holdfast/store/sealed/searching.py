"""Filters on arguments or error texts: the store cannot see those, so they are tested here.

The store walks by everything else that the filter names. The jobs that it finds are opened and
tested one by one, a bounded number of them for each page and for a bounded time, as a store does.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import msgspec

from holdfast.errors import NoKey
from holdfast.job.record import Job
from holdfast.job.sealed import is_sealed, read_envelope
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.jobs import Jobs
from holdfast.store.contract.matching import has_values
from holdfast.store.contract.reading import WalkBound
from holdfast.store.contract.records import Page
from holdfast.store.sealed.records import Records

LOOK = 2_000
"""How many jobs a page opens, unless it is told: some tens of milliseconds."""
LOOK_BATCH = 200


class Search:
    """One filter, parted into what the store tests and what is tested here."""

    def __init__(self, which: JobFilter, records: Records) -> None:
        self._records = records
        self._args = which.args
        self._text = (which.error_text or "").casefold() if records.hides_errors else ""
        left = None if records.hides_errors else which.error_text
        self._rest = msgspec.structs.replace(which, args={}, error_text=left)

    @classmethod
    def of(cls, which: JobFilter, records: Records) -> Search | None:
        """None if the store can test all of the filter."""
        hidden = which.error_text and records.hides_errors
        return cls(which, records) if which.args or hidden else None

    async def page(self, jobs: Jobs, limit: int, cursor: str | None, look: WalkBound) -> Page:
        found: list[Job] = []
        left, looked_at, closed = look.jobs or LOOK, 0, 0
        until = time.monotonic() + look.seconds
        while True:
            rest = WalkBound(left, max(0.0, until - time.monotonic()))
            some = await jobs.page(self._rest, min(LOOK_BATCH, left), cursor, rest)
            for job in await self._opened(jobs, some.jobs):
                if len(found) == limit:
                    return Page(tuple(found), found[-1].id, looked_at, unsearched=closed)
                looked_at += 1
                closed += self._is_closed(job)
                if self._fits(job):
                    found.append(_as_listed(job))
            cursor, left = some.next_cursor, left - max(len(some.jobs), some.looked_at)
            if cursor is None or left <= 0 or time.monotonic() >= until:
                reached = some.jobs[-1].created_at if some.jobs else some.reached
                over = cursor is None or len(found) == limit
                return Page(
                    tuple(found), cursor, looked_at, None if over else reached, over, closed
                )

    async def count(self, jobs: Jobs) -> dict[JobState, int]:
        """Counts what the filter means. Raises `NoKey` at a job that nobody here can open: a number
        that may be too low would be taken for the truth."""
        counts: Counter[JobState] = Counter()
        cursor: str | None = None
        while True:
            some = await jobs.page(self._rest, LOOK_BATCH, cursor)
            for job in await self._opened(jobs, some.jobs):
                if self._is_closed(job):
                    raise NoKey(read_envelope(job.args_json).kid)
                counts[job.state] += self._fits(job)
            cursor = some.next_cursor
            if cursor is None:
                return dict(+counts)

    async def _opened(self, jobs: Jobs, some: Sequence[Job]) -> list[Job]:
        """Newest first. A page has the newest error of a job only, and a text may be in any."""
        if self._text:
            some = await jobs.get([job.id for job in some])
        newest_first = sorted(some, key=lambda job: job.id, reverse=True)
        return [self._records.job(job) for job in newest_first]

    def _is_closed(self, job: Job) -> bool:
        return bool(self._args) and is_sealed(job.args_json)

    def _fits(self, job: Job) -> bool:
        if self._args and not has_values(job.args_json, self._args):
            return False
        texts = [(job.reason or "") if job.ended else "", *(one.message for one in job.errors)]
        return not self._text or any(self._text in text.casefold() for text in texts)


def _as_listed(job: Job) -> Job:
    return msgspec.structs.replace(job, errors=job.errors[-1:])
