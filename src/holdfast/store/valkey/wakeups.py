"""Wakeups on Valkey: a subscription on a connection of its own."""

from __future__ import annotations

from typing import Any

from holdfast.store.listening import ASK_EVERY, ASK_TIMEOUT, LineWakeups
from holdfast.store.valkey.clients import close_client
from holdfast.store.valkey.connection import Connections


class ValkeyWakeups(LineWakeups):
    """Scripts publish on one channel of the namespace."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(listen=connections.options.listen)
        self._connections = connections

    async def hold_a_line(self) -> None:
        client = self._connections.listener()
        try:
            async with client.pubsub() as line:
                await line.subscribe(self._connections.channel)
                await self._confirmed(line)
                self.up()
                await self._follow(line)
        finally:
            await close_client(client)

    async def _confirmed(self, line: Any) -> None:
        message = await line.get_message(timeout=ASK_TIMEOUT)
        if message is None or message["type"] != "subscribe":
            raise TimeoutError("the server did not confirm the subscription")

    async def _follow(self, line: Any) -> None:
        asked = False
        while True:
            message = await line.get_message(timeout=ASK_TIMEOUT if asked else ASK_EVERY)
            if message is None:
                if asked:
                    raise TimeoutError("the server does not answer")
                await line.ping()
            elif message["type"] == "message":
                self.heard(message["data"].decode())
            asked = message is None
