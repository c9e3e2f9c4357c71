"""What can be known about jobs, on Postgres."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.job.ids import JobId
from holdfast.job.record import ERRORS_KEPT, Job, Live
from holdfast.job.state import ENDED, JobState
from holdfast.store.contract.records import JobFilter, Outcome, Page
from holdfast.store.postgres import rows
from holdfast.store.postgres.connection import Session
from holdfast.store.postgres.job_verbs import JobVerbs
from holdfast.store.postgres.pool import Record
from holdfast.store.postgres.telemetry import tallies


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

    async def ahead(self, job_id: JobId) -> int:
        [(count,)] = await self._connections.fetch("jobs/ahead", job_id)
        return int(count)

    async def page(self, which: JobFilter, limit: int, cursor: str | None = None) -> Page:
        """One more than asked for is looked up, to know whether another page follows.

        Both reads share a snapshot, so that no job is shown in a state that the filter
        would have left out.
        """

        async def steps(session: Session) -> tuple[list[str], list[Record]]:
            await session.execute("jobs/begin_reading")
            found = await session.fetch("jobs/page", *_filters(which), cursor, limit + 1)
            ids = [str(row["job_id"]) for row in found]
            return ids, await session.fetch("jobs/get", ids[:limit], 1)

        ids, records = await self._connections.run(steps, transaction=True)
        jobs = sorted(map(rows.job, records), key=lambda job: job.id, reverse=True)
        return Page(tuple(jobs), ids[limit - 1] if len(ids) > limit else None)

    async def count(self, which: JobFilter) -> dict[JobState, int]:
        if which.is_tallied:
            return which.counted(await tallies(self._connections, which.queues))

        async def steps(session: Session) -> list[Record]:
            await session.execute("jobs/begin_reading")
            return await session.fetch("jobs/count", *_filters(which))

        found = await self._connections.run(steps, transaction=True)
        return {rows.STATES[row["state"]]: row["jobs"] for row in found}


def _filters(which: JobFilter) -> tuple[object, ...]:
    """The parameters of the part `filtered`; None means any."""
    return (
        list(which.ids) or None,
        [state.value for state in which.states] or None,
        list(which.queues) or None,
        list(which.tasks) or None,
        which.tag,
        which.created_after,
        which.created_before,
        which.error_text,
        not which.states or not which.states.isdisjoint(ENDED),
    )
