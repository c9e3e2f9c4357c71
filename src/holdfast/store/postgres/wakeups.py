"""Wakeups on Postgres: LISTEN on a connection of its own."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import asyncpg

from holdfast.store.listening import ASK_EVERY, ASK_TIMEOUT, LineWakeups
from holdfast.store.postgres.connection import Connections


class PostgresWakeups(LineWakeups):
    """NOTIFY reaches every connection that listens on the channel of the schema."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(listen=connections.options.listen)
        self._connections = connections

    async def hold_a_line(self) -> None:
        line = await asyncpg.connect(
            **self._connections.settings(f"{self._connections.role}-listen")
        )
        gone = asyncio.Event()
        line.add_termination_listener(lambda _: gone.set())
        try:
            await line.add_listener(self._connections.options.channel, self._notified)
            self.up()
            while not gone.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(gone.wait(), ASK_EVERY)
                    return
                await line.fetch(self._connections.scripts["ping"], timeout=ASK_TIMEOUT)
        finally:
            line.terminate()

    def _notified(self, _line: Any, _pid: int, _channel: str, payload: Any) -> None:
        self.heard(str(payload))
