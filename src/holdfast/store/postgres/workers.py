"""Workers on Postgres, and the leases they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.job.ids import JobId, WorkerId
from holdfast.store.contract.records import (
    LATELY,
    MOST_COUNTED,
    Beat,
    Held,
    News,
    WorkerInfo,
    to_counts,
)
from holdfast.store.contract.workers import NONE_STUCK
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
        )

    async def heartbeat(
        self,
        worker: WorkerId,
        lease: float,
        held: Sequence[Held],
        caught_up: bool = True,
        stuck: Mapping[str, int] = NONE_STUCK,
    ) -> Beat:
        ids, fences = [one.id for one in held], [one.fence for one in held]
        said = (caught_up, to_counts(stuck))
        found = await self._connections.timed(
            "workers/heartbeat", worker, lease, ids, fences, *said
        )
        known, cancel, lost = found[0]
        return Beat(known, tuple(map(JobId, cancel)), tuple(map(JobId, lost)))

    async def poll(self, worker: WorkerId, queues: Sequence[str], tasks: Sequence[str]) -> News:
        values = (worker, list(queues), LATELY, MOST_COUNTED)
        return News(*(await self._connections.timed("workers/poll", *values))[0])

    async def deregister(self, worker: WorkerId) -> None:
        await self._connections.fetch("workers/deregister", worker)

    async def find(self) -> list[WorkerInfo]:
        return [rows.worker_info(row) for row in await self._connections.timed("workers/find")]

    async def sweep(self, limit: int, lapsed_for: float) -> int:
        return int((await self._connections.timed("workers/sweep", limit, lapsed_for))[0][0])

    async def lead(self, role: str, worker: WorkerId, ttl: float) -> bool:
        return bool(await self._connections.timed("workers/lead", role, worker, ttl))

    async def stop_leading(self, role: str, worker: WorkerId) -> None:
        channel = self._connections.options.channel
        await self._connections.fetch("workers/stop_leading", channel, role, worker)
