"""`Jobs` on Valkey: each verb is one script, called in every partition that it concerns."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import NotCapable
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.outcome import Transition
from holdfast.job.record import Claimed, Inserted, Job, Live, NewJob
from holdfast.job.state import JobState
from holdfast.store.contract.records import (
    Capability,
    JobFilter,
    Outcome,
    Page,
    ProgressReport,
    Promoted,
    Verdict,
    Want,
    WorkerInfo,
)
from holdfast.store.valkey import claiming, finishing, inserting, progressing, reading, sweeping
from holdfast.store.valkey.connection import Connections, bites
from holdfast.store.valkey.moments import finite
from holdfast.store.valkey.replies import ids_of
from holdfast.store.valkey.server import Restarts

BITE = 500


class ValkeyJobs:
    """See `holdfast.store.contract.jobs.Jobs`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._restarts = Restarts()

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        return await inserting.insert(self._connections, jobs) if jobs else []

    async def insert_within(self, connection: object, jobs: Sequence[NewJob]) -> list[Inserted]:
        raise NotCapable("valkey", Capability.TRANSACTIONAL_ENQUEUE.value)

    def insert_within_sync(self, connection: object, jobs: Sequence[NewJob]) -> list[Inserted]:
        raise NotCapable("valkey", Capability.TRANSACTIONAL_ENQUEUE.value)

    async def claim(
        self, worker: WorkerId, wants: Sequence[Want], tasks: Sequence[str]
    ) -> list[Claimed]:
        return await claiming.claim(self._connections, self._restarts, worker, wants, tasks)

    async def finish(self, transitions: Sequence[Transition]) -> list[Verdict]:
        return await finishing.finish(self._connections, transitions)

    async def reclaim(
        self, transitions: Sequence[Transition], by: WorkerInfo | None = None
    ) -> list[Verdict]:
        return await finishing.reclaim(self._connections, transitions, by)

    async def lapsed_leases(self, limit: int, after: str | None = None) -> list[Live]:
        return await sweeping.lapsed_leases(self._connections, limit, after)

    async def overdue_attempts(
        self, limit: int, after: str | None = None, slack: float = 0.0
    ) -> list[Live]:
        return await sweeping.overdue_attempts(self._connections, limit, after, slack)

    async def past_deadline(self, limit: int, after: str | None = None) -> list[Live]:
        return await sweeping.past_deadline(self._connections, limit, after)

    async def next_deadline_in(self) -> float | None:
        return await sweeping.next_deadline_in(self._connections)

    async def live(self, ids: Sequence[JobId]) -> list[Live]:
        return await reading.live(self._connections, ids)

    async def promote_due(self, limit: int) -> Promoted:
        return await sweeping.promote_due(self._connections, limit)

    async def due(self, limit: int, after: str | None = None) -> list[JobId]:
        return await sweeping.due(self._connections, limit, after)

    async def promote(self, ids: Sequence[JobId]) -> int:
        return await sweeping.promote(self._connections, ids)

    async def resume(self, ids: Sequence[JobId]) -> list[JobId]:
        return await self._arriving("jobs/resume", ids)

    async def request_cancel(self, ids: Sequence[JobId]) -> list[JobId]:
        return await self._each("jobs/request_cancel", ids)

    async def requeue(self, ids: Sequence[JobId]) -> list[JobId]:
        return await self._arriving("jobs/requeue", ids)

    async def reschedule(self, ids: Sequence[JobId], delay: float) -> list[JobId]:
        return await self._arriving("jobs/reschedule", ids, delay=finite(delay))

    async def reprioritise(self, ids: Sequence[JobId], priority: int) -> list[JobId]:
        return await self._each("jobs/reprioritise", ids, priority=priority)

    async def move(self, ids: Sequence[JobId], queue: str) -> list[JobId]:
        return await self._each("jobs/move", ids, queue=queue)

    async def delete(self, ids: Sequence[JobId]) -> list[JobId]:
        return await self._each("jobs/delete", ids)

    async def prune(self, limit: int) -> int:
        return await sweeping.prune(self._connections, limit)

    async def report_progress(self, reports: Sequence[ProgressReport]) -> list[bool]:
        return await progressing.report_progress(self._connections, reports)

    async def get(self, ids: Sequence[JobId]) -> list[Job]:
        return await reading.get(self._connections, ids)

    async def ahead(self, job_id: JobId) -> int:
        return await reading.ahead(self._connections, job_id)

    async def outcomes(self, ids: Sequence[JobId]) -> list[Outcome]:
        return await reading.outcomes(self._connections, ids)

    async def page(self, which: JobFilter, limit: int, cursor: str | None = None) -> Page:
        return await reading.page(self._connections, which, limit, cursor)

    async def count(self, which: JobFilter) -> dict[JobState, int]:
        return await reading.count(self._connections, which)

    async def _each(self, verb: str, ids: Sequence[JobId], **given: object) -> list[JobId]:
        """A verb on chosen jobs; answers those it concerned."""
        found: list[JobId] = []
        for some in bites(dict.fromkeys(ids), BITE):
            calls = [
                (verb, partition, {**given, "chosen": mine})
                for partition, mine in self._connections.by_partition(some).items()
            ]
            for answer in await self._connections.call_each(calls):
                found += ids_of(answer)
        return found

    async def _arriving(self, verb: str, ids: Sequence[JobId], **given: object) -> list[JobId]:
        """The same where jobs go to the end of their lines, in the order they were named."""
        found: list[JobId] = []
        for some in bites(dict.fromkeys(ids), BITE):
            places = {job_id: index for index, job_id in enumerate(some)}
            base = await self._connections.arrivals(1)
            calls = [
                (
                    verb,
                    partition,
                    {**given, "arrival": base, "chosen": [(i, places[JobId(i)]) for i in mine]},
                )
                for partition, mine in self._connections.by_partition(some).items()
            ]
            for answer in await self._connections.call_each(calls):
                found += ids_of(answer)
        return found
