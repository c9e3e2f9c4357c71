"""Workers on Postgres, and the leases they hold."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.job.ids import JobId, WorkerId
from holdfast.store.contract.facts import NO_FACTS, WorkerFacts
from holdfast.store.contract.workers import (
    LATELY,
    MOST_COUNTED,
    Beat,
    Drain,
    Held,
    News,
    QueueTotal,
    WorkerInfo,
    to_counts,
)
from holdfast.store.postgres import rows
from holdfast.store.postgres.connection import Connections


class PostgresWorkers:
    """See `holdfast.store.contract.workers.Workers` for what each verb promises."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def register(self, worker: WorkerInfo, lease: float) -> None:
        await self._connections.timed(
            "workers/register",
            worker.id,
            worker.name,
            worker.host,
            worker.pid,
            to_counts(worker.queues),
            list(worker.tasks),
            worker.version,
            lease,
            worker.facts.to_json(),
            self._connections.options.channel,
        )

    async def heartbeat(
        self,
        worker: WorkerId,
        lease: float,
        held: Sequence[Held],
        caught_up: bool = True,
        facts: WorkerFacts = NO_FACTS,
    ) -> Beat:
        ids, fences = [one.id for one in held], [one.fence for one in held]
        said = (caught_up, facts.to_json())
        found = await self._connections.timed(
            "workers/heartbeat", worker, lease, ids, fences, *said
        )
        known, drain, cancel, lost = found[0]
        orders = (Drain(),) if drain else ()
        return Beat(known, tuple(map(JobId, cancel)), tuple(map(JobId, lost)), orders)

    async def poll(self, worker: WorkerId, queues: Sequence[str], tasks: Sequence[str]) -> News:
        values = (worker, list(queues), LATELY, MOST_COUNTED)
        return News(*(await self._connections.timed("workers/poll", *values))[0])

    async def fleet(self, queues: Collection[str]) -> list[QueueTotal]:
        found = await self._connections.timed("workers/fleet", list(queues))
        totals = {row["name"]: row["total"] for row in found}
        workers = {
            WorkerId(str(row["id"])): row["queues"] for row in found if row["id"] is not None
        }
        return QueueTotal.gathered(totals.items(), workers.items())

    async def request_drain(self, ids: Sequence[WorkerId]) -> list[WorkerId]:
        if not ids:
            return []
        channel = self._connections.options.channel
        told = await self._connections.timed("workers/request_drain", channel, list(ids))
        return [WorkerId(str(row["id"])) for row in told]

    async def deregister(self, worker: WorkerId, facts: WorkerFacts | None = None) -> None:
        last = None if facts is None else facts.to_json()
        channel = self._connections.options.channel
        await self._connections.fetch("workers/deregister", worker, last, channel)

    async def counts(self) -> dict[str, int]:
        found = await self._connections.fetch("workers/counts")
        return {row["name"]: row["n"] for row in found}

    async def find(self) -> list[WorkerInfo]:
        return [rows.worker_info(row) for row in await self._connections.timed("workers/find")]

    async def sweep(self, limit: int, lapsed_for: float) -> int:
        return int((await self._connections.timed("workers/sweep", limit, lapsed_for))[0][0])

    async def lead(self, role: str, worker: WorkerId, ttl: float) -> bool:
        return bool(await self._connections.timed("workers/lead", role, worker, ttl))

    async def stop_leading(self, role: str, worker: WorkerId) -> None:
        channel = self._connections.options.channel
        await self._connections.fetch("workers/stop_leading", channel, role, worker)
