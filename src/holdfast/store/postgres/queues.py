"""Queues on Postgres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.job.passing import total_name
from holdfast.store.contract.queues import Paused, QueueInfo, QueueSettings
from holdfast.store.postgres import rows
from holdfast.store.postgres.buckets import look_again
from holdfast.store.postgres.connection import Connections, Session


class PostgresQueues:
    """See `holdfast.store.contract.queues.Queues` for what each verb promises."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def ensure(self, queues: Mapping[str, QueueSettings]) -> None:
        if queues:
            await self._connections.run(
                lambda session: self._ensure(session, queues),
                transaction=any(one.max_running is not None for one in queues.values()),
            )

    async def _ensure(self, session: Session, queues: Mapping[str, QueueSettings]) -> None:
        texts = [each.to_json() for each in queues.values()]
        for row in await session.fetch("queues/ensure", [*queues], texts):
            if queues[row["name"]].max_running is not None:
                await self._rule_total(session, row["name"], queues[row["name"]].max_running)

    async def pause(self, names: Sequence[str]) -> None:
        channel = self._connections.options.channel
        await self._connections.fetch("queues/pause", channel, sorted(set(names)))

    async def resume(self, names: Sequence[str]) -> None:
        channel = self._connections.options.channel
        await self._connections.fetch("queues/resume", channel, sorted(set(names)))

    async def paused(self) -> Paused:
        return Paused.named(row["name"] for row in await self._connections.fetch("queues/paused"))

    async def tune(self, name: str, settings: QueueSettings) -> None:
        async def work(session: Session) -> None:
            await self._ensure(session, {name: QueueSettings()})
            [known] = await session.fetch("queues/settings", [name])
            await session.fetch("queues/tune", name, settings.to_json())
            if settings.max_running != QueueSettings.from_json(known["settings"]).max_running:
                await self._rule_total(session, name, settings.max_running)

        await self._connections.run(work, transaction=True)

    async def _rule_total(self, session: Session, queue: str, most: int | None) -> None:
        """A queue has got a total, or another one, or none any more."""
        total, channel = total_name(queue), self._connections.options.channel
        await session.timed("limits/make", [total])
        await session.timed("queues/rule_total", channel, queue, most, total)
        await look_again(session, channel, buckets=[total])

    async def waiting(self) -> Sequence[str]:
        return [row["queue"] for row in await self._connections.fetch("queues/waiting")]

    async def find(self, names: Sequence[str] = ()) -> list[QueueInfo]:
        found = await self._connections.timed("queues/find", [*names] or None)
        return [rows.queue_info(row) for row in found]
