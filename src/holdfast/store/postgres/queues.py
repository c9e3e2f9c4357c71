"""Queues on Postgres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.store.contract.queues import Paused, QueueInfo, QueueSettings
from holdfast.store.postgres import rows
from holdfast.store.postgres.connection import Connections


class PostgresQueues:
    """See `holdfast.store.contract.queues.Queues` for what each verb promises."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def ensure(self, queues: Mapping[str, QueueSettings]) -> None:
        if queues:
            settings = [each.to_json() for each in queues.values()]
            await self._connections.fetch("queues/ensure", [*queues], settings)

    async def pause(self, names: Sequence[str]) -> None:
        channel = self._connections.options.channel
        await self._connections.fetch("queues/pause", channel, sorted(set(names)))

    async def resume(self, names: Sequence[str]) -> None:
        channel = self._connections.options.channel
        await self._connections.fetch("queues/resume", channel, sorted(set(names)))

    async def paused(self) -> Paused:
        return Paused.named(row["name"] for row in await self._connections.fetch("queues/paused"))

    async def tune(self, name: str, settings: QueueSettings) -> None:
        await self._connections.fetch("queues/tune", name, settings.to_json())

    async def waiting(self) -> Sequence[str]:
        return [row["queue"] for row in await self._connections.fetch("queues/waiting")]

    async def find(self, names: Sequence[str] = ()) -> list[QueueInfo]:
        found = await self._connections.timed("queues/find", [*names] or None)
        return [rows.queue_info(row) for row in found]
