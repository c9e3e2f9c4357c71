"""Which jobs are meant: friendly words become a filter, and a filter becomes a walk.

A verb on many jobs walks them once, by cursor: what the verb itself makes match
anew, or what is enqueued meanwhile, is not walked again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec

from holdfast.errors import BadOption
from holdfast.job.checks import check_job_id
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.store.contract.jobs import Jobs
from holdfast.store.contract.records import JobFilter

BULK = 1_000
OnProgress = Callable[[int, int], None]
"""Is called with how many jobs are done, and of how many."""
Verb = Callable[[Sequence[JobId]], Awaitable[list[JobId]]]  # answers those it changed


class BulkReport(msgspec.Struct, frozen=True):
    """What a bulk verb found and did; with a dry run, what it would do."""

    matched: int
    changed: int
    dry_run: bool


async def change_all(
    jobs: Jobs,
    which: JobFilter,
    allowed: frozenset[JobState],
    verb: Verb,
    dry_run: bool,
    on_progress: OnProgress | None,
) -> BulkReport:
    """Apply a verb to every matching job that is in one of the states it allows."""
    states = (which.states or allowed) & allowed
    if not states:
        raise BadOption("states", f"among {', '.join(sorted(allowed))}", sorted(which.states))
    which = msgspec.structs.replace(which, states=states)
    matched = sum((await jobs.count(which)).values())
    if dry_run:
        return BulkReport(matched, 0, dry_run=True)
    changed, cursor = 0, None
    while True:
        page = await jobs.page(which, BULK, cursor)
        changed += len(await verb([job.id for job in page.jobs]))
        if on_progress is not None:
            on_progress(changed, matched)
        if page.next_cursor is None:
            return BulkReport(matched, changed, dry_run=False)
        cursor = page.next_cursor


def job_filter(**which: Any) -> JobFilter:
    """A JobFilter from friendly words: one value or many, `queue` or `queues`, …

    >>> job_filter(queue="mail", state="failed").queues
    ('mail',)
    """
    plural = {"id": "ids", "state": "states", "queue": "queues", "task": "tasks"}
    words = {plural.get(word, word): value for word, value in which.items() if value is not None}
    unknown = set(words) - set(JobFilter.__struct_fields__)
    if unknown:
        known = ", ".join((*JobFilter.__struct_fields__, *plural))
        raise BadOption("filter", f"one of {known}", ", ".join(sorted(unknown)))
    for word in ("ids", "queues", "tasks"):
        if word in words:
            words[word] = tuple(_many(words[word]))
    if "ids" in words:
        words["ids"] = tuple(check_job_id(job_id) for job_id in words["ids"])
    if "states" in words:
        words["states"] = frozenset(_state(state) for state in _many(words["states"]))
    return JobFilter(**words)


def _many(value: str | Iterable[str]) -> Iterable[str]:
    return (value,) if isinstance(value, str) else value


def _state(state: str) -> JobState:
    try:
        return JobState(state)
    except ValueError:
        raise BadOption("state", f"one of {', '.join(JobState)}", state) from None
