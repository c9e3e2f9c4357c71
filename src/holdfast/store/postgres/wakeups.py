"""Wakeups on Postgres: LISTEN on a connection of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg

from holdfast.store.listening import ListeningWakeups
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.pool import Connection


class PostgresWakeups(ListeningWakeups):
    """NOTIFY reaches every connection that listens on a channel of the schema."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(listen=connections.options.listen)
        self._connections = connections

    @property
    def channel(self) -> str:
        return self._connections.options.channel

    async def open_ear(self) -> _Ear:
        role = f"{self._connections.role}-listen"
        connection = await asyncpg.connect(**self._connections.settings(role))
        return _Ear(connection, self._connections.scripts["wakeups/ping"], self.heard)


class _Ear:
    """The connection that listens."""

    def __init__(self, connection: Connection, ping: str, heard: Callable[[str], None]) -> None:
        self._connection = connection
        self._ping = ping
        self._heard = heard
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        connection.add_termination_listener(self._terminated)

    async def listen(self, channel: str) -> None:
        await self._connection.add_listener(channel, self._notified)

    async def unlisten(self, channel: str) -> None:
        await self._connection.remove_listener(channel, self._notified)

    async def ask(self) -> None:
        """A server that takes no writes sends no notification: after a failover it is another
        server that does, and only a new connection leads there."""
        if not await self._connection.fetch(self._ping):
            raise ConnectionError("the server takes no writes")

    def cut(self) -> None:
        self._connection.terminate()

    def _notified(self, _connection: Any, _pid: int, _channel: str, payload: Any) -> None:
        self._heard(str(payload))

    def _terminated(self, _connection: Any) -> None:
        if not self.gone.done():
            self.gone.set_result(None)
