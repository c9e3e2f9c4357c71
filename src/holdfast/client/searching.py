"""Filters on arguments and error texts see nothing inside what is encrypted, and that is said.

A program with the keys opens each job before it is tested (`holdfast.store.sealed.searching`). What
no key of this program opens may or may not be meant: a list says how many such jobs there are, and
a count or an act on all jobs of a filter is refused.
"""

from __future__ import annotations

import msgspec

from holdfast.errors import Refused
from holdfast.job.record import Job
from holdfast.job.sealed import is_sealed
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.jobs import Jobs
from holdfast.store.contract.reading import WalkBound

SAMPLE = 50
"""How many jobs are looked at to learn whether there are encrypted ones."""


async def count_unsearched(jobs: Jobs, which: JobFilter, cursor: str | None = None) -> int:
    """How many of the next jobs the filter cannot see into; 0 if it does not have to."""
    if not which.args and not which.error_text:
        return 0
    others = msgspec.structs.replace(which, args={}, error_text=None)
    page = await jobs.page(others, SAMPLE, cursor, WalkBound(SAMPLE * 20))
    return sum(_is_closed(job, which) for job in page.jobs)


async def require_searchable(jobs: Jobs, which: JobFilter) -> None:
    """Raise `Refused` if the filter cannot see into some of the jobs that it may mean."""
    if await count_unsearched(jobs, which):
        raise Refused(
            "some of these jobs are encrypted, and this program lacks their keys: a filter on "
            "arguments or error texts cannot see into them: set HOLDFAST_KEYS, or filter by tags"
        )


def _is_closed(job: Job, which: JobFilter) -> bool:
    texts = [job.args_json] if which.args else []
    if which.error_text:
        texts += [job.reason or "", *(error.message for error in job.errors)]
    return any(map(is_sealed, texts))
