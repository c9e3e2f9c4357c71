"""The read side: whole jobs, pages, counts. Nothing here writes.

A page walks sets of ids from the newest id downwards, in steps. A filter is applied to the narrow
records of a step first; bodies are read only of jobs that passed.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.job.happening import Happening
from holdfast.job.ids import JobId
from holdfast.job.record import Job, Live
from holdfast.job.state import LIVE, JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.reading import USUAL_BOUND, WalkBound
from holdfast.store.contract.records import Outcome, Page
from holdfast.store.valkey import rows
from holdfast.store.valkey.connection import Connections, ValkeyVerbs, batches
from holdfast.store.valkey.filtering import Filtering
from holdfast.store.valkey.layout import Record
from holdfast.store.valkey.moments import to_datetime
from holdfast.store.valkey.telemetry import Counts, counts, tallies
from holdfast.store.walks import NO_JOBS, Walk

COUNTED_AHEAD = 1_000
"""How far a line is counted: beyond it only "many" matters."""
READ_BATCH = 500
LOOK = 2_000
"""How many jobs a page looks at, unless it is told."""


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

    async def life(self, ids: Sequence[JobId]) -> list[Happening]:
        found: list[Happening] = []
        for some in batches(dict.fromkeys(ids), READ_BATCH):
            places = list(self._connections.by_partition(some).items())
            calls = [("jobs/life", partition, {"chosen": mine}) for partition, mine in places]
            answers = await self._connections.call_each(calls)
            for (_, mine), answer in zip(places, answers, strict=True):
                for job_id, lists in zip(mine, answer, strict=True):
                    found += rows.readable(rows.life, job_id, *lists) or ()
        return found

    async def ahead(self, job_id: JobId) -> int:
        [(_, blob)], by_partition = await asyncio.gather(
            _blobs(self._connections, [job_id], "s"), counts(self._connections)
        )
        row = rows.readable(rows.to_record, blob)
        if row is None or row.state != JobState.READY:
            return 0
        place = {"priority": row.priority, "seq": row.seq + job_id, "limit": COUNTED_AHEAD}
        calls = [
            ("jobs/ahead", partition, {**place, "lines": lines})
            for partition, lines in _ready_lines(by_partition, row.queue).items()
        ]
        counted: list[int] = await self._connections.call_each(calls) if calls else []
        return min(COUNTED_AHEAD, sum(counted))

    async def page(
        self, which: JobFilter, limit: int, cursor: str | None = None, look: WalkBound = USUAL_BOUND
    ) -> Page:
        """The tallies are older than what the walk sees, so they only say whether there is
        anything: a walk that ended at their number could miss a job that was there all the time."""
        test = await self._filtering(which)
        if test is None:
            return NO_JOBS
        walk, jobs = Walk(limit, cursor, look, LOOK), list[Job]()
        while step := min(walk.step, READ_BATCH if test.narrows else walk.room):
            ids = await self._newest(test, walk.cursor, step)
            passed = list(await self._passed(test, ids)) if test.narrows else ids
            taken = passed if test.text else passed[: walk.room]
            looked = ids if len(taken) == len(passed) else ids[: ids.index(taken[-1]) + 1]
            found = await self._jobs(test, taken)
            jobs += found
            last = looked[-1] if looked else None
            walk.add([job.id for job in found], len(looked), last, ended=len(looked) < step)
        return walk.page(jobs[:limit], await self._created_at(walk.stopped_at))

    async def count(self, which: JobFilter) -> dict[JobState, int]:
        """From the counters where they suffice, or from the size of a set; else by reading every
        job in question."""
        if which.is_tallied:
            return which.counted(await tallies(self._connections, which.queues_by_name))
        if which == JobFilter(fingerprint=which.fingerprint, states=which.states):
            return await self._counted_dead(which)
        counted: Counter[JobState] = Counter()
        test, cursor = await self._filtering(which), None
        while test and (ids := await self._newest(test, cursor, READ_BATCH)):
            passed = await self._passed(test, ids)
            if test.text:
                counted.update(job.state for job in await self._jobs(test, list(passed)))
            else:
                counted.update(passed.values())
            cursor = ids[-1]
        return dict(counted)

    async def _counted_dead(self, which: JobFilter) -> dict[JobState, int]:
        """The jobs that failed with one fingerprint have a set of their own."""
        reads = [
            ("ZCARD", self._connections.key(partition, f"dead:{which.fingerprint}"))
            for partition in self._connections.partitions
        ]
        dead = sum(await self._connections.commands(reads)) if which.states_possible else 0
        return {JobState.FAILED: dead} if dead else {}

    async def _filtering(self, which: JobFilter) -> Filtering | None:
        """None if the tallies say that the filter means no job."""
        if not which.names_tallied:
            return Filtering(which)
        there = await tallies(self._connections, which.queues_by_name)
        return Filtering(which.spelled_out(there)) if which.counted(there) else None

    async def _newest(self, test: Filtering, cursor: str | None, limit: int) -> list[str]:
        """The newest ids below the cursor: of those that are named, or of all partitions."""
        if test.which.ids:
            named = {i for i in test.which.ids if cursor is None or i < cursor}
            return heapq.nlargest(limit, named)
        names, running = test.sources
        below = "+" if cursor is None else f"({cursor}"
        answers = await self._connections.everywhere(
            "jobs/newest", below=below, limit=limit, running="1" if running else "", names=names
        )
        found = {job_id.decode() for answer in answers for job_id in answer}
        return heapq.nlargest(limit, found)

    async def _passed(self, test: Filtering, ids: Sequence[str]) -> dict[str, JobState]:
        """The states of those jobs that the filter may mean, as far as records and bodies tell; in
        the order of the ids. Where a text is searched for, jobs without errors and without a reason
        are left out: that is most of them, and to read them whole takes long."""
        found, told = {}, set()
        for job_id, blob in await _blobs(self._connections, ids, "s"):
            row = rows.readable(rows.to_record, blob)
            if row is not None and test.fits_record(row):
                found[job_id] = rows.STATES[row.state]
                if row.reason:
                    told.add(job_id)
        if test.text:
            told |= await self._erring(list(found))
            found = {job_id: state for job_id, state in found.items() if job_id in told}
        if test.needs_body:
            for job_id, text in await _blobs(self._connections, list(found), "b"):
                body = rows.readable(rows.to_body, text)
                if body is None or not test.fits_body(body):
                    del found[job_id]
        return {job_id: found[job_id] for job_id in ids if job_id in found}

    async def _erring(self, ids: Sequence[str]) -> set[str]:
        calls = [
            ("jobs/erring", partition, {"chosen": mine})
            for partition, mine in self._connections.by_partition(ids).items()
        ]
        answers = await self._connections.call_each(calls) if calls else []
        return {job_id.decode() for answer in answers for job_id in answer}

    async def _jobs(self, test: Filtering, ids: Sequence[str]) -> list[Job]:
        """Those of the jobs that the filter means, newest first. A job may have moved since its
        record was looked at."""
        found = await whole_jobs(
            self._connections, ids, newest_error=not test.text, keeps=test.fits_record
        )
        fitting = [_shown(job) for job in found if test.fits_errors(job)]
        return sorted(fitting, key=lambda job: job.id, reverse=True)

    async def _created_at(self, job_id: str | None) -> datetime | None:
        for _, blob in await _blobs(self._connections, [job_id], "s") if job_id else ():
            row = rows.readable(rows.to_record, blob)
            return None if row is None else to_datetime(row.created_at)
        return None


async def live_jobs(connections: Connections, ids: Sequence[str]) -> list[Live]:
    found: list[Live] = []
    for some in batches(dict.fromkeys(ids), READ_BATCH):
        for job_id, blob, text in await _blobs(connections, some, "s", "b"):
            job = rows.readable(rows.live, job_id, blob, text)
            if job is not None and job.state in LIVE:
                found.append(job)
    return found


async def whole_jobs(
    connections: Connections,
    ids: Sequence[str],
    *,
    newest_error: bool = False,
    keeps: Callable[[Record], bool] | None = None,
) -> list[Job]:
    """With all their errors, or with the newest error only. `keeps`: a test of their records."""
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
                if job is not None and (keeps is None or keeps(rows.to_record(parts[0]))):
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


def _ready_lines(by_partition: Sequence[Counts], queue: str) -> dict[int, list[str]]:
    """The lines of a queue that are not empty, by partition."""
    found: dict[int, list[str]] = {}
    for partition, counted in enumerate(by_partition):
        for state, its_queue, task in counted:
            if state is JobState.READY and its_queue == queue:
                found.setdefault(partition, []).append(rows.line_name(queue, task))
    return found


def _shown(job: Job) -> Job:
    """The job with its newest error only, whatever was read to search in."""
    if len(job.errors) < 2:
        return job
    return msgspec.structs.replace(job, errors=job.errors[-1:])
