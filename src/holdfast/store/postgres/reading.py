"""What can be known about jobs, on Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from math import inf
from typing import cast

import msgspec

from holdfast.job.happening import Happening
from holdfast.job.ids import JobId
from holdfast.job.record import ERRORS_KEPT, Job, Live
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.reading import USUAL_BOUND, WalkBound
from holdfast.store.contract.records import ALL, Outcome, Page
from holdfast.store.postgres import rows
from holdfast.store.postgres.connection import Session
from holdfast.store.postgres.filtering import json_test, parameters, reads_a_range
from holdfast.store.postgres.job_verbs import JobVerbs
from holdfast.store.postgres.telemetry import tallies
from holdfast.store.walks import Walk

LOOK = 20_000
"""How many jobs a page looks at, unless it is told."""
BODIES = 4_000
"""How many bodies a step gives to Python at most."""
BODIES_OF_A_PAGE = 8_000
"""After so many bodies a page ends, however few jobs it has looked at."""


class PostgresReading(JobVerbs):
    """See `holdfast.store.contract.reading.Reading` for what each verb promises."""

    async def get(self, ids: Sequence[JobId]) -> list[Job]:
        found = await self._connections.fetch("jobs/get", list(dict.fromkeys(ids)), ERRORS_KEPT)
        return [rows.job(row) for row in found]

    async def live(self, ids: Sequence[JobId]) -> list[Live]:
        found = await self._connections.fetch("jobs/live", list(dict.fromkeys(ids)))
        return [rows.live(row) for row in found]

    async def outcomes(self, ids: Sequence[JobId]) -> list[Outcome]:
        found = await self._connections.fetch("jobs/outcomes", list(dict.fromkeys(ids)))
        return [rows.outcome(row) for row in found]

    async def life(self, ids: Sequence[JobId]) -> list[Happening]:
        found = await self._connections.fetch("jobs/life", list(dict.fromkeys(ids)))
        return [rows.happening(row) for row in found]

    async def ahead(self, job_id: JobId) -> int:
        [(count,)] = await self._connections.fetch("jobs/ahead", job_id)
        return int(count)

    async def page(
        self, which: JobFilter, limit: int, cursor: str | None = None, look: WalkBound = USUAL_BOUND
    ) -> Page:
        """All reads share a snapshot, so that no job is shown in a state that the filter would
        have left out, and the tallies speak of the same jobs."""

        async def steps(session: Session) -> Page:
            await session.execute("jobs/begin_reading")
            meant, most = await _spelled_out(session, which)
            walk = Walk(limit, cursor, look, LOOK, most)
            await _walk(session, walk, meant, BODIES_OF_A_PAGE)
            records = await session.fetch("jobs/get", walk.ids, 1) if walk.ids else ()
            reached = await _created_at(session, walk.stopped_at)
            return walk.page([rows.job(row) for row in records], reached)

        return await self._connections.run(steps, transaction=True)

    async def count(self, which: JobFilter) -> dict[JobState, int]:
        if which.is_tallied:
            return which.counted(await tallies(self._connections, which.queues_by_name))

        async def steps(session: Session) -> dict[JobState, int]:
            await session.execute("jobs/begin_reading")
            meant, most = await _spelled_out(session, which)
            if most == 0:
                return {}
            if json_test(meant) is not None:
                return await _counted_in_steps(session, meant)
            found = await session.fetch("jobs/count", *parameters(meant))
            return {rows.STATES[row["state"]]: row["jobs"] for row in found}

        return await self._connections.run(steps, transaction=True)


async def _spelled_out(session: Session, which: JobFilter) -> tuple[JobFilter, int | None]:
    """The filter without patterns, and how many jobs it means, where the tallies say."""
    if not which.names_tallied:
        return which, None
    there = await tallies(session, which.queues_by_name)
    most = sum(which.counted(there).values())
    return which.spelled_out(there), most if which.is_tallied or not most else None


async def _walk(session: Session, walk: Walk, which: JobFilter, bodies: int = ALL) -> None:
    """Take steps until the page is full or the walk is over, or Python has looked at so many
    bodies. A step ends with as many bodies as it may give, and the next one looks at as many jobs
    as that took."""
    values, test, whole = parameters(which), json_test(which), reads_a_range(which)
    most, given = ALL, 0
    while given < bodies and (step := min(walk.step, most)):
        limit = walk.room if test is None else BODIES
        found = await session.fetch(
            "jobs/page", *values, test is not None, walk.cursor, step, limit, whole
        )
        [(_, looked_at, last, *_), *_] = found
        hits = [row for row in found if row["job_id"] is not None]
        ended = looked_at < step and len(hits) < limit
        fitting = [
            str(row["job_id"])
            for row in hits
            if test is None
            or (row["args"] is not None and test.fits((), row["args"], row["headers"]))
        ]
        walk.add(fitting, looked_at, None if last is None else str(last), ended=ended)
        if test is not None:
            given += len(hits)
            most = looked_at if len(hits) == limit else most


async def _counted_in_steps(session: Session, which: JobFilter) -> dict[JobState, int]:
    """How many jobs there are by state, where Python has to look at their bodies."""
    counts: dict[JobState, int] = {}
    for state in sorted(which.states_possible):
        walk = Walk(ALL, None, WalkBound(ALL, inf))
        await _walk(session, walk, msgspec.structs.replace(which, states=frozenset({state})))
        if walk.found:
            counts[state] = len(walk.found)
    return counts


async def _created_at(session: Session, job_id: str | None) -> datetime | None:
    for (at,) in await session.fetch("jobs/created", job_id) if job_id else ():
        return cast("datetime", at)
    return None
