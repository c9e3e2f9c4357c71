"""The read side: whole jobs, pages, counts. Nothing here writes.

A page walks sets of ids from the newest id downwards. Filters are applied to the jobs of each step,
and steps go on until the page is full, so every filter comes before the limit.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec

from holdfast.job.ids import JobId
from holdfast.job.record import Job, Live
from holdfast.job.state import ENDED, LIVE, UNTIMED, JobState
from holdfast.store.contract.records import JobFilter, Outcome, Page
from holdfast.store.valkey import rows
from holdfast.store.valkey.connection import Connections, ValkeyVerbs, batches
from holdfast.store.valkey.telemetry import counts, tallies

COUNTED_AHEAD = 1_000
"""How far a line is counted: beyond it only "many" matters."""
READ_BATCH = 500
FILTER_BATCH = 200
"""Jobs of one step where a filter may drop most of them."""


class ValkeyReading(ValkeyVerbs):
    """See `holdfast.store.contract.reading.Reading`."""

    async def get(self, ids: Sequence[JobId]) -> list[Job]:
        return await whole_jobs(self._connections, ids)

    async def live(self, ids: Sequence[JobId]) -> list[Live]:
        return await live_jobs(self._connections, ids)

    async def outcomes(self, ids: Sequence[JobId]) -> list[Outcome]:
        found: list[Outcome] = []
        for some in batches(dict.fromkeys(ids), READ_BATCH):
            for job_id, blob in await _blobs(self._connections, some, "s"):
                outcome = rows.readable(rows.outcome, job_id, blob)
                if outcome is not None:
                    found.append(outcome)
        return found

    async def ahead(self, job_id: JobId) -> int:
        [(_, blob)] = await _blobs(self._connections, [job_id], "s")
        row = rows.readable(rows.to_record, blob)
        if row is None or row.state != JobState.READY:
            return 0
        place = {"priority": row.priority, "seq": row.seq + job_id, "limit": COUNTED_AHEAD}
        calls = [
            ("jobs/ahead", partition, {**place, "lines": lines})
            for partition, lines in (await self._ready_lines(row.queue)).items()
        ]
        counted: list[int] = await self._connections.call_each(calls) if calls else []
        return min(COUNTED_AHEAD, sum(counted))

    async def page(self, which: JobFilter, limit: int, cursor: str | None = None) -> Page:
        """One job more than asked for says whether there is a next page."""
        jobs: list[Job] = []
        size = FILTER_BATCH if _narrows(which) else min(limit + 1, READ_BATCH)
        async for job in self._walk(which, cursor, size):
            if len(jobs) == limit:
                return Page(tuple(jobs), jobs[-1].id if jobs else None)
            jobs.append(job)
        return Page(tuple(jobs), None)

    async def count(self, which: JobFilter) -> dict[JobState, int]:
        """From the counters where they suffice, else by reading every job in question."""
        if which.is_tallied:
            return which.counted(await tallies(self._connections, which.queues))
        found: dict[JobState, int] = {}
        async for job in self._walk(which, None, READ_BATCH):
            found[job.state] = found.get(job.state, 0) + 1
        return found

    async def _ready_lines(self, queue: str) -> dict[int, list[str]]:
        """The lines of a queue that are not empty, by partition."""
        found: dict[int, list[str]] = {}
        for partition, counted in enumerate(await counts(self._connections)):
            for state, its_queue, task in counted:
                if state is JobState.READY and its_queue == queue:
                    found.setdefault(partition, []).append(rows.line_name(queue, task))
        return found

    async def _walk(self, which: JobFilter, cursor: str | None, size: int) -> AsyncIterator[Job]:
        """Every job that the filter means, newest first."""
        fits = _matcher(which)
        async for ids in self._steps(which, cursor, size):
            found = await whole_jobs(self._connections, ids, newest_error=not which.error_text)
            for job in sorted(found, key=lambda job: job.id, reverse=True):
                if fits(job):
                    yield _shown(job)

    async def _steps(
        self, which: JobFilter, cursor: str | None, size: int
    ) -> AsyncIterator[list[str]]:
        if which.ids:
            named = sorted({i for i in which.ids if cursor is None or i < cursor}, reverse=True)
            for some in batches(named, size):
                yield list(some)
            return
        while ids := await self._newest(which, cursor, size):
            yield ids
            cursor = ids[-1]

    async def _newest(self, which: JobFilter, cursor: str | None, limit: int) -> list[str]:
        """The newest ids below the cursor, of all partitions."""
        names, running = _sources(which)
        below = "+" if cursor is None else f"({cursor}"
        answers = await self._connections.everywhere(
            "jobs/newest", below=below, limit=limit, running="1" if running else "", names=names
        )
        found = {job_id.decode() for answer in answers for job_id in answer}
        return heapq.nlargest(limit, found)


async def live_jobs(connections: Connections, ids: Sequence[str]) -> list[Live]:
    found: list[Live] = []
    for some in batches(dict.fromkeys(ids), READ_BATCH):
        for job_id, blob, text in await _blobs(connections, some, "s", "b"):
            job = rows.readable(rows.live, job_id, blob, text)
            if job is not None and job.state in LIVE:
                found.append(job)
    return found


async def whole_jobs(
    connections: Connections, ids: Sequence[str], *, newest_error: bool = False
) -> list[Job]:
    """With all their errors, or with the newest error only."""
    jobs: list[Job] = []
    for some in batches(dict.fromkeys(ids), READ_BATCH):
        places = list(connections.by_partition(some).items())
        calls = [
            ("jobs/get", partition, {"newest": "1" if newest_error else "", "chosen": mine})
            for partition, mine in places
        ]
        for (_, mine), answer in zip(places, await connections.call_each(calls), strict=True):
            for job_id, parts in zip(mine, answer, strict=True):
                job = rows.readable(rows.job, job_id, *parts)
                if job is not None:
                    jobs.append(job)
    return jobs


async def _blobs(
    connections: Connections, ids: Sequence[str], *kinds: str
) -> list[tuple[Any, ...]]:
    """The id of each job and its strings of these kinds, by one MGET for each partition."""
    places = list(connections.by_partition(ids).items())
    reads = [
        ("MGET", *(connections.key(p, f"{kind}:{job_id}") for kind in kinds for job_id in mine))
        for p, mine in places
    ]
    found: list[tuple[Any, ...]] = []
    for (_, mine), answer in zip(places, await connections.commands(reads), strict=True):
        columns = [answer[n * len(mine) : (n + 1) * len(mine)] for n in range(len(kinds))]
        found += zip(mine, *columns, strict=True)
    return found


def _sources(which: JobFilter) -> tuple[list[str], bool]:
    """The sets that hold every job in question, and whether the sets of what workers hold belong
    to them. Of the live states only running and those without a clock have sets that list ids."""
    states = which.states or frozenset(JobState)
    names = [f"ended:{state}" for state in sorted(states & ENDED)]
    wanted = states & LIVE
    if not wanted <= UNTIMED | {JobState.RUNNING}:
        return [*names, "live"], False
    names += [f"untimed:{state}" for state in sorted(wanted & UNTIMED)]
    return names, JobState.RUNNING in wanted


def _needs_jobs(which: JobFilter) -> bool:
    """Whether the counters cannot answer the filter."""
    dated = which.created_after is not None or which.created_before is not None
    return dated or which.tag is not None or bool(which.error_text)


def _narrows(which: JobFilter) -> bool:
    return bool(which.queues or which.tasks or which.states) or _needs_jobs(which)


def _may_be(which: JobFilter, state: JobState, queue: str, task: str) -> bool:
    return (
        (not which.states or state in which.states)
        and (not which.queues or queue in which.queues)
        and (not which.tasks or task in which.tasks)
    )


def _matcher(which: JobFilter) -> Callable[[Job], bool]:
    after, before = which.created_after, which.created_before
    text = (which.error_text or "").casefold()

    def fits(job: Job) -> bool:
        return (
            _may_be(which, job.state, job.queue, job.task)
            and (which.tag is None or which.tag in job.tags)
            and (after is None or job.created_at >= after)
            and (before is None or job.created_at < before)
            and (not text or _mentions(job, text))
        )

    return fits


def _mentions(job: Job, text: str) -> bool:
    reason = job.reason if job.ended else None
    texts = [reason or "", *(error.message for error in job.errors)]
    return any(text in one.casefold() for one in texts)


def _shown(job: Job) -> Job:
    """The job with its newest error only, whatever was read to search in."""
    if len(job.errors) < 2:
        return job
    return msgspec.structs.replace(job, errors=job.errors[-1:])
