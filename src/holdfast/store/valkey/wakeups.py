"""Wakeups on Valkey: a subscription on a line of its own."""

from __future__ import annotations

import asyncio

from redis import exceptions

from holdfast.store.listening import ASK_EVERY, ASK_TIMEOUT, LineWakeups
from holdfast.store.valkey.connection import Connections


class ValkeyWakeups(LineWakeups):
    """Scripts publish on one channel of the namespace."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(listen=connections.options.listen)
        self._connections = connections

    async def hold_a_line(self) -> None:
        line = await self._connections.listener(lambda message: self.heard(message.decode()))
        try:
            async with asyncio.timeout(ASK_TIMEOUT):
                await line.ask(("SUBSCRIBE", self._connections.channel))
            self.up()
            while not line.lost.done():
                await asyncio.wait((line.lost,), timeout=ASK_EVERY)
                async with asyncio.timeout(ASK_TIMEOUT):
                    await line.ask(("PING",))
        finally:
            line.cut(exceptions.ConnectionError("nobody listens any more"))
