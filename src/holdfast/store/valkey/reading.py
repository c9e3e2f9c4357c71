"""The read side: whole records, pages, counts. Nothing here writes.

A page walks sets of ids downwards: the living, or those that ended in one way. Filters are applied
to what a step finds, and steps go on until the page is full, so no filter comes after the limit.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec

from holdfast.job.record import Job, Live
from holdfast.job.state import ENDED, LIVE, JobState
from holdfast.store.contract.records import JobFilter, Outcome, Page
from holdfast.store.valkey import rows
from holdfast.store.valkey.connection import Connections, bites
from holdfast.store.valkey.replies import paired

COUNTED = 1_000  # how far a line is counted: beyond it only "many" matters
STEP = 200
BITE = 500


async def live(connections: Connections, ids: Sequence[str]) -> list[Live]:
    found: list[Live] = []
    for some in bites(dict.fromkeys(ids), BITE):
        for job_id, blob, text in await _blobs(connections, some, "s", "b"):
            job = rows.readable(rows.live, job_id, blob, text)
            if job is not None and job.state in LIVE:
                found.append(job)
    return found


async def outcomes(connections: Connections, ids: Sequence[str]) -> list[Outcome]:
    found: list[Outcome] = []
    for some in bites(dict.fromkeys(ids), BITE):
        for job_id, blob in await _blobs(connections, some, "s"):
            outcome = rows.readable(rows.outcome, job_id, blob)
            if outcome is not None:
                found.append(outcome)
    return found


async def _blobs(
    connections: Connections, ids: Sequence[str], *kinds: str
) -> list[tuple[Any, ...]]:
    """Plain strings of jobs: one MGET for each partition."""
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


async def get(connections: Connections, ids: Sequence[str], *, newest: bool = False) -> list[Job]:
    jobs: list[Job] = []
    for some in bites(dict.fromkeys(ids), BITE):
        places = list(connections.by_partition(some).items())
        calls = [
            ("jobs/get", partition, {"newest": "1" if newest else "", "chosen": mine})
            for partition, mine in places
        ]
        for (_, mine), answer in zip(places, await connections.call_each(calls), strict=True):
            for job_id, parts in zip(mine, answer, strict=True):
                job = rows.readable(rows.job, job_id, *parts)
                if job is not None:
                    jobs.append(job)
    return jobs


async def ahead(connections: Connections, job_id: str) -> int:
    [(_, blob)] = await _blobs(connections, [job_id], "s")
    row = rows.readable(rows.to_record, blob)
    if row is None or row.state != JobState.READY:
        return 0
    place = {"priority": row.priority, "seq": row.seq + job_id, "limit": COUNTED}
    calls = [
        ("jobs/ahead", partition, {**place, "lines": lines})
        for partition, lines in (await ready_lines(connections, row.queue)).items()
    ]
    return min(COUNTED, sum(await connections.call_each(calls)) if calls else 0)


async def ready_lines(connections: Connections, queue: str) -> dict[int, list[str]]:
    """The lines of a queue that are not empty, by partition."""
    found: dict[int, list[str]] = {}
    for partition, counted in enumerate(await counts(connections)):
        for state, its_queue, task in counted:
            if state is JobState.READY and its_queue == queue:
                found.setdefault(partition, []).append(rows.line_name(queue, task))
    return found


async def counts(connections: Connections) -> list[dict[tuple[JobState, str, str], int]]:
    """How many jobs there are by state, queue and task, in each partition."""
    reads = [("HGETALL", connections.key(p, "counts")) for p in connections.partitions]
    return [
        {rows.split_count(field): int(number) for field, number in paired(answer)}
        for answer in await connections.commands(reads)
    ]


async def count(connections: Connections, which: JobFilter) -> dict[JobState, int]:
    """From the counters where they suffice, else by looking at every job in question."""
    found: dict[JobState, int] = {}
    if which.ids or _needs_a_look(which):
        async for job in _walk(connections, which, None):
            found[job.state] = found.get(job.state, 0) + 1
        return found
    for counted in await counts(connections):
        for (state, queue, task), number in counted.items():
            if _may_be(which, state, queue, task):
                found[state] = found.get(state, 0) + number
    return found


def _needs_a_look(which: JobFilter) -> bool:
    dated = which.created_after is not None or which.created_before is not None
    return dated or which.tag is not None or bool(which.error_text)


def _may_be(which: JobFilter, state: JobState, queue: str, task: str) -> bool:
    return (
        (not which.states or state in which.states)
        and (not which.queues or queue in which.queues)
        and (not which.tasks or task in which.tasks)
    )


async def page(connections: Connections, which: JobFilter, limit: int, cursor: str | None) -> Page:
    """One job more than asked says whether there is a next page."""
    jobs: list[Job] = []
    step = STEP if _narrows(which) else min(limit + 1, BITE)
    async for job in _walk(connections, which, cursor, step):
        if len(jobs) == limit:
            return Page(tuple(jobs), jobs[-1].id if jobs else None)
        jobs.append(job)
    return Page(tuple(jobs), None)


def _narrows(which: JobFilter) -> bool:
    return bool(which.queues or which.tasks or which.states) or _needs_a_look(which)


async def _walk(
    connections: Connections, which: JobFilter, cursor: str | None, step: int = BITE
) -> AsyncIterator[Job]:
    """Every job that is meant, newest first."""
    fits = _matcher(which)
    async for ids in _steps(connections, which, cursor, step):
        found = await get(connections, ids, newest=not which.error_text)
        for job in sorted(found, key=lambda job: job.id, reverse=True):
            if fits(job):
                yield _shown(job)


def _shown(job: Job) -> Job:
    """With the newest error only, whatever was read to search in."""
    if len(job.errors) < 2:
        return job
    return msgspec.structs.replace(job, errors=job.errors[-1:])


async def _steps(
    connections: Connections, which: JobFilter, cursor: str | None, step: int
) -> AsyncIterator[list[str]]:
    if which.ids:
        named = sorted({i for i in which.ids if cursor is None or i < cursor}, reverse=True)
        for some in bites(named, step):
            yield list(some)
        return
    while True:
        ids = await _newest(connections, which, cursor, step)
        if not ids:
            return
        yield ids
        cursor = ids[-1]


async def _newest(
    connections: Connections, which: JobFilter, cursor: str | None, limit: int
) -> list[str]:
    """The newest ids below the cursor, of all partitions."""
    names, running = _sources(which)
    below = "+" if cursor is None else f"({cursor}"
    answers = await connections.everywhere(
        "jobs/newest", below=below, limit=limit, running="1" if running else "", names=names
    )
    found = {job_id.decode() for answer in answers for job_id in answer}
    return heapq.nlargest(limit, found)


def _sources(which: JobFilter) -> tuple[list[str], bool]:
    """The sets that hold every job in question, and whether what workers hold is meant besides.
    Of the live states only blocked and running have a set of their own that lists ids."""
    states = which.states or frozenset(JobState)
    names = [f"ended:{state}" for state in sorted(states & ENDED)]
    wanted = states & LIVE
    if not wanted <= {JobState.BLOCKED, JobState.RUNNING}:
        return [*names, "live"], False
    if JobState.BLOCKED in wanted:
        names.append("blocked")
    return names, JobState.RUNNING in wanted


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
    told = job.reason if job.ended else None
    texts = [told or "", *(error.message for error in job.errors)]
    return any(text in one.casefold() for one in texts)
