"""Wakeups on Valkey: a subscription on a connection of its own."""

from __future__ import annotations

from holdfast.store.listening import ListeningWakeups
from holdfast.store.valkey.connection import Connections
from holdfast.store.valkey.resp import Connection


class ValkeyWakeups(ListeningWakeups):
    """Scripts publish on the channels of the namespace."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(listen=connections.options.listen)
        self._connections = connections

    @property
    def channel(self) -> str:
        return self._connections.channel

    async def open_ear(self) -> _Ear:
        return _Ear(await self._connections.listener(lambda said: self.heard(said.decode())))


class _Ear:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.gone = connection.lost

    async def listen(self, channel: str) -> None:
        await self._connection.ask(("SUBSCRIBE", channel))

    async def unlisten(self, channel: str) -> None:
        await self._connection.ask(("UNSUBSCRIBE", channel))

    async def ask(self) -> None:
        await self._connection.ask(("PING",))

    def cut(self) -> None:
        self._connection.cut(ConnectionError("nobody listens any more"))
