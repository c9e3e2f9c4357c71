"""Every statement goes through here, with a timeout, a name and a retry.

Nothing is kept in a session between two verbs, so any line serves any verb, and
with `pooler=true` each verb is one explicit transaction: a transaction pooler
then keeps it on one server connection, where the driver's unnamed statement
stays valid.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import asyncpg

from holdfast.clock import Clock
from holdfast.errors import StoreFull, StoreUnavailable
from holdfast.store.postgres.failures import COLLISION, line_lost, translated
from holdfast.store.postgres.options import Options
from holdfast.store.postgres.pool import Line, Pool, Record
from holdfast.store.postgres.scripts import load_scripts

CONNECT_TIMEOUT = 10.0
COLLISIONS_TOLERATED = 8

Answer = TypeVar("Answer")


class Connections:
    """One pool of one store, bound to the loop that opened it."""

    def __init__(self, options: Options, clock: Clock, role: str) -> None:
        self.options = options
        self.clock = clock
        self.role = role
        self.scripts: Mapping[str, str] = load_scripts(options.schema)
        self._lines: Pool | None = None

    @property
    def is_open(self) -> bool:
        return self._lines is not None

    async def open(self) -> None:
        """Nothing connects yet: an outage is told once, by the verb that meets it."""
        if self._lines is None:
            self._lines = Pool(self._connect, self.options.pool_size)

    async def _connect(self) -> Line:
        return await asyncpg.connect(
            command_timeout=self.options.statement_timeout, **self.settings(self.role)
        )

    def settings(self, role: str) -> dict[str, Any]:
        """How to connect, for verbs and for the listener."""
        return {
            "dsn": self.options.dsn,
            "timeout": CONNECT_TIMEOUT,
            "statement_cache_size": 0 if self.options.pooler else 200,
            "server_settings": self._server_settings(role),
        }

    def _server_settings(self, role: str) -> dict[str, str]:
        """A pooler refuses startup parameters that it does not know; the name is one it does.

        The server's own timeouts end what a frozen or vanished client left behind. JIT is
        off because a wrong guess of the planner would make it compile for a claim of ten rows.
        """
        name = {"application_name": f"holdfast-{role}-{os.getpid()}"}
        if self.options.pooler:
            return name
        milliseconds = str(int(self.options.statement_timeout * 1000) + 1000)
        return name | {
            "statement_timeout": milliseconds,
            "idle_in_transaction_session_timeout": "60000",
            "tcp_keepalives_idle": "30",
            "jit": "off",
        }

    async def close(self) -> None:
        lines, self._lines = self._lines, None
        if lines is not None:
            await lines.close()

    async def fetch(self, verb: str, *values: object, again: bool = True) -> list[Record]:
        """Run the script of one verb."""
        script = self.scripts[verb]
        return await self.run(lambda line: line.fetch(script, *values), again=again)

    async def timed(self, verb: str, *values: object, again: bool = True) -> list[Record]:
        """Run a script whose `$1` is the time to believe: null, or what a clock says."""
        return await self.fetch(verb, self.clock.override(), *values, again=again)

    async def run(
        self,
        work: Callable[[Line], Awaitable[Answer]],
        *,
        transaction: bool = False,
        again: bool = True,
    ) -> Answer:
        """Do `work` on a line, in a transaction if asked for or if a pooler
        needs it. A collision is tried again; so is, once, a connection that was stale,
        unless the caller wants to hear of it (`again`)."""
        stale_allowed = again
        for collisions in range(COLLISIONS_TOLERATED + 1):
            try:
                return await self._attempt(work, transaction or self.options.pooler)
            except COLLISION:
                await asyncio.sleep(random.random() * 0.01 * 2**collisions)
            except Exception as error:
                if not (stale_allowed and line_lost(error)):
                    self._raise_known(error)
                    raise
                stale_allowed = False
        raise StoreUnavailable(f"{self.options.where}: transactions kept colliding")

    def _raise_known(self, error: Exception) -> None:
        if isinstance(error, asyncpg.TooManyConnectionsError):
            raise StoreFull(self.options.where, str(error)) from error
        if known := translated(error, self.options.where):
            raise known from error

    async def _attempt(
        self, work: Callable[[Line], Awaitable[Answer]], transaction: bool
    ) -> Answer:
        if self._lines is None:
            raise StoreUnavailable(f"{self.options.where}: the store is not open")
        if not transaction:
            return await self._lines.use(work)

        async def whole(line: Line) -> Answer:
            async with line.transaction():
                return await work(line)

        return await self._lines.use(whole)
