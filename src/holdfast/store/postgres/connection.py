"""The pool: every statement goes through here, with a timeout, a name and a retry.

Nothing is kept in a session between two verbs, so a connection may be handed
out in any state-less order, and with `pooler=true` each verb is one explicit
transaction: a transaction pooler then keeps it on one server connection, where
the driver's unnamed statement stays valid.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from holdfast.clock import Clock
from holdfast.errors import StoreUnavailable
from holdfast.store.postgres.failures import COLLISION, line_lost, translated
from holdfast.store.postgres.options import Options
from holdfast.store.postgres.scripts import load_scripts

CONNECT_TIMEOUT = 10.0
ACQUIRE_TIMEOUT = 15.0
COLLISIONS_TOLERATED = 8

Record = asyncpg.Record
Answer = TypeVar("Answer")


if TYPE_CHECKING:  # generic only in the type stubs
    _Connection = asyncpg.Connection[Record]
else:
    _Connection = asyncpg.Connection


class Line(_Connection):
    """A pooled connection. Verbs leave nothing in the session, so nothing has to be reset:
    the driver's default would cost a round trip after every verb."""

    def get_reset_query(self) -> str:
        return ""


class Connections:
    """One pool of one store, bound to the loop that opened it."""

    def __init__(self, options: Options, clock: Clock, role: str) -> None:
        self.options = options
        self.clock = clock
        self.role = role
        self.scripts: Mapping[str, str] = load_scripts(options.schema)
        self._pool: asyncpg.Pool[Record] | None = None

    @property
    def is_open(self) -> bool:
        return self._pool is not None

    async def open(self) -> None:
        if self._pool is not None:
            return
        pool = asyncpg.create_pool(
            min_size=0,  # no floor to restore: an outage is told once, by the verb that meets it
            max_size=self.options.pool_size,
            connection_class=Line,
            command_timeout=self.options.statement_timeout,
            **self.settings(self.role),
        )
        try:
            self._pool = await asyncio.wait_for(pool, CONNECT_TIMEOUT + 5)
        except Exception as error:
            pool.terminate()
            self._raise_known(error)
            raise

    def settings(self, role: str) -> dict[str, Any]:
        """How to connect, for the pool and for the listener."""
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
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            await asyncio.wait_for(pool.close(), 5)
        except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            pool.terminate()

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
        """Do `work` on a pooled connection, in a transaction if asked for or if a pooler
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
        if known := translated(error, self.options.where):
            raise known from error

    async def _attempt(
        self, work: Callable[[Line], Awaitable[Answer]], transaction: bool
    ) -> Answer:
        if self._pool is None:
            raise StoreUnavailable(f"{self.options.where}: the store is not open")
        async with self._pool.acquire(timeout=ACQUIRE_TIMEOUT) as line:
            if not transaction:
                return await work(line)  # type: ignore[arg-type]  # the pool's proxy of a Line
            async with line.transaction():
                return await work(line)  # type: ignore[arg-type]  # as above
