"""Every statement goes through here, with a timeout, a name and a retry.

Nothing is kept in a session between two verbs, so any connection serves any verb. With
`pooler=true` each verb is one explicit transaction: a transaction pooler then keeps it on one
server connection, where the driver's unnamed statement stays valid.
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
from holdfast.store.postgres.array_types import tell_array_types
from holdfast.store.postgres.errors import COLLISION, needs_new_connection, translated
from holdfast.store.postgres.options import Options
from holdfast.store.postgres.pool import Connection, Pool, Record
from holdfast.store.postgres.scripts import load_scripts

CONNECT_TIMEOUT = 10.0
COLLISIONS_TOLERATED = 8
COLLISION_PAUSE_SECONDS = 0.01  # doubled each time

Answer = TypeVar("Answer")


class Session:
    """One connection while a verb of several steps uses it. Runs scripts by noun and verb."""

    __slots__ = ("_clock", "_scripts", "connection")

    def __init__(self, connection: Connection, scripts: Mapping[str, str], clock: Clock) -> None:
        self.connection = connection
        self._scripts = scripts
        self._clock = clock

    def fetch(self, verb: str, *values: object) -> Awaitable[list[Record]]:
        return self.connection.fetch(self._scripts[verb], *values)

    def timed(self, verb: str, *values: object) -> Awaitable[list[Record]]:
        """Run a script whose `$1` is the time to believe: null, or what a test's clock says."""
        return self.connection.fetch(self._scripts[verb], self._clock.override(), *values)

    def execute(self, verb: str) -> Awaitable[str]:
        """Run a script of several statements, which can have no parameters."""
        return self.connection.execute(self._scripts[verb])


class Connections:
    """The pool of one store, bound to the loop that opened it. `may_copy`: the driver has COPY."""

    may_copy = True

    def __init__(self, options: Options, clock: Clock, role: str) -> None:
        self.options = options
        self.clock = clock
        self.role = role
        self.scripts: Mapping[str, str] = load_scripts(options.schema)
        self._pool: Pool | None = None

    @property
    def is_open(self) -> bool:
        return self._pool is not None

    async def open(self) -> None:
        """Nothing connects yet: the first verb that meets an outage reports it."""
        if self._pool is None:
            self._pool = Pool(self._connect, self.options.pool_size)

    async def _connect(self) -> Connection:
        connection: Connection = await asyncpg.connect(
            command_timeout=self.options.statement_timeout, **self.settings(self.role)
        )
        tell_array_types(connection)
        return connection

    def settings(self, role: str) -> dict[str, Any]:
        """How to connect, for verbs and for the listener."""
        return {
            "dsn": self.options.dsn,
            "timeout": CONNECT_TIMEOUT,
            "statement_cache_size": 0 if self.options.pooler else 200,
            "server_settings": self._server_settings(role),
        }

    def _server_settings(self, role: str) -> dict[str, str]:
        """A pooler refuses startup parameters that it does not know; it knows the name.

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
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def fetch(self, verb: str, *values: object, again: bool = True) -> list[Record]:
        """Run one script, alone."""
        script = self.scripts[verb]
        return await self._retried(
            lambda connection: connection.fetch(script, *values), self.options.pooler, again
        )

    async def timed(self, verb: str, *values: object, again: bool = True) -> list[Record]:
        """Run a script whose `$1` is the time to believe: null, or what a test's clock says."""
        return await self.fetch(verb, self.clock.override(), *values, again=again)

    async def run(
        self,
        steps: Callable[[Session], Awaitable[Answer]],
        *,
        transaction: bool = False,
        again: bool = True,
    ) -> Answer:
        """Run several steps on one connection; in a transaction if the caller asks for one or a
        pooler needs one. `again` False: the caller wants to hear of a lost connection."""

        def work(connection: Connection) -> Awaitable[Answer]:
            return steps(Session(connection, self.scripts, self.clock))

        return await self._retried(work, transaction or self.options.pooler, again)

    async def _retried(
        self, work: Callable[[Connection], Awaitable[Answer]], transaction: bool, again: bool
    ) -> Answer:
        """Work that collided with another transaction is done again. So is, once, work that met a
        connection which had died while it was idle, or whose session takes no writes."""
        stale_allowed = again
        for collisions in range(COLLISIONS_TOLERATED + 1):
            try:
                return await self._attempt(work, transaction)
            except COLLISION:
                await asyncio.sleep(random.random() * COLLISION_PAUSE_SECONDS * 2**collisions)
            except Exception as error:
                if not (stale_allowed and needs_new_connection(error)):
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
        self, work: Callable[[Connection], Awaitable[Answer]], transaction: bool
    ) -> Answer:
        if self._pool is None:
            raise StoreUnavailable(f"{self.options.where}: the store is not open")
        if not transaction:
            return await self._pool.use(work)

        async def whole(connection: Connection) -> Answer:
            async with connection.transaction():
                return await work(connection)

        return await self._pool.use(whole)
