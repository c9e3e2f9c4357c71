"""The read side of jobs: whole records, pages and counts."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.job.ids import JobId
from holdfast.job.record import ERRORS_KEPT, Job
from holdfast.job.state import ENDED, JobState
from holdfast.store.contract.records import JobFilter, Outcome, Page
from holdfast.store.postgres import rows
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.pool import Line, Record


class Reader:
    """get, outcomes, page and count of one store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def get(self, ids: Sequence[JobId]) -> list[Job]:
        found = await self._connections.fetch("jobs/get", list(dict.fromkeys(ids)), ERRORS_KEPT)
        return [rows.job(row) for row in found]

    async def outcomes(self, ids: Sequence[JobId]) -> list[Outcome]:
        found = await self._connections.fetch("jobs/outcomes", list(dict.fromkeys(ids)))
        return [Outcome(JobId(str(row[0])), rows.STATES[row[1]], row[2], row[3]) for row in found]

    async def page(self, which: JobFilter, limit: int, cursor: str | None) -> Page:
        """One more than asked for is looked up, to know whether another page follows.

        Both reads share a snapshot, so that no job is shown in a state that the filter
        would have left out.
        """
        scripts = self._connections.scripts

        async def both(line: Line) -> tuple[list[str], list[Record]]:
            await line.execute(scripts["jobs/begin_reading"])
            found = await line.fetch(scripts["jobs/page"], *_filters(which), cursor, limit + 1)
            ids = [str(row[0]) for row in found]
            return ids, await line.fetch(scripts["jobs/get"], ids[:limit], 1)

        ids, records = await self._connections.run(both, transaction=True)
        jobs = sorted(map(rows.job, records), key=lambda job: job.id, reverse=True)
        return Page(tuple(jobs), ids[limit - 1] if len(ids) > limit else None)

    async def count(self, which: JobFilter) -> dict[JobState, int]:
        scripts = self._connections.scripts

        async def counting(line: Line) -> list[Record]:
            await line.execute(scripts["jobs/begin_reading"])
            return await line.fetch(scripts["jobs/count"], *_filters(which))

        found = await self._connections.run(counting, transaction=True)
        return {rows.STATES[row[0]]: row[1] for row in found}


def _filters(which: JobFilter) -> tuple[object, ...]:
    """The filter as the parameters that page.sql and count.sql share; None means any."""
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
