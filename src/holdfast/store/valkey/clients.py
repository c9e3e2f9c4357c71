"""Making clients: to one server, to the master that sentinels name, or to a cluster.

One server is spoken to over a connection of our own (`resp.py`), which costs a third of what the
driver's client does. The slots, moved keys and failing nodes of a cluster are left to the driver
(`driver.py`), which is imported for nothing else: that takes as long as all other imports of a
worker together.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from ssl import SSLContext
from typing import Any

from holdfast.store.valkey.marks import FIRST, Marks
from holdfast.store.valkey.options import Options
from holdfast.store.valkey.resp import Connection, Heard, ResponseError

CONNECT_TIMEOUT = 10.0

Client = Any  # Direct or RedisCluster: the driver's annotations describe its sync clients as well
Dial = Callable[[], Awaitable[Connection]]


class Direct:
    """A client of one server, with as much of the driver's surface as is needed here.

    It connects when it is first used, and again after its connection was lost. It repeats no
    command: only the verb knows whether that is safe.
    """

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._connection: Connection | None = None
        self._dialing: asyncio.Task[Connection] | None = None
        self.connection_number = 0

    async def initialize(self) -> None:
        await self._connected()

    async def execute_command(self, *words: Any) -> Any:
        connection = self._connection
        if connection is None or connection.lost.done():
            connection = await self._connected()
        try:
            return await connection.ask(words)
        except ResponseError as error:
            if "READONLY" in str(error):
                # The master has become a replica. The next call asks which server is master.
                connection.cut(ConnectionError("the master became a replica"))
            raise

    async def scan_iter(self, match: str, count: int) -> AsyncIterator[bytes]:
        cursor: bytes | None = None
        while cursor != b"0":
            words = ("SCAN", cursor or 0, "MATCH", match, "COUNT", count)
            cursor, keys = await self.execute_command(*words)
            for key in keys:
                yield key

    async def aclose(self) -> None:
        if self._dialing is not None:
            self._dialing.cancel()
            await asyncio.wait((self._dialing,))
        if self._connection is not None:
            self._connection.cut(ConnectionError("the store is closed"))

    async def _connected(self) -> Connection:
        """All callers that need a connection wait for one attempt to make it."""
        if self._connection is not None and not self._connection.lost.done():
            return self._connection
        if self._dialing is None:
            self._dialing = asyncio.create_task(self._connect(), name="holdfast-valkey-dial")
            self._dialing.add_done_callback(self._dialed)
        return await asyncio.shield(self._dialing)

    async def _connect(self) -> Connection:
        self._connection = await self._dial()
        self.connection_number += 1
        return self._connection

    def _dialed(self, task: asyncio.Task[Connection]) -> None:
        self._dialing = None
        if not task.cancelled():
            task.exception()  # the waiting callers have got it; if there are none, it is no news


class Clients:
    """Makes the clients of one store."""

    def __init__(self, options: Options, marks: Marks) -> None:
        self._options = options
        self._marks = marks
        self._sentinel: Any = None

    def make(self, role: str, size: int) -> Client:
        """`size`: most connections to a node of a cluster."""
        if self._options.cluster:
            return self._of_cluster(role, size)
        return Direct(lambda: self._dial(role))

    async def listener(self, role: str, heard: Heard, node: tuple[str, int] | None) -> Connection:
        """A connection that only listens, to this node or else to the server."""
        if node is None:
            return await self._dial(role, heard)
        async with asyncio.timeout(CONNECT_TIMEOUT):
            return await self._connect(*node, role, heard)

    async def close(self) -> None:
        """Close what is left when the clients are closed: the connections to the sentinels."""
        sentinel, self._sentinel = self._sentinel, None
        for one in sentinel.sentinels if sentinel else ():
            await one.aclose()
            await one.connection_pool.disconnect()

    async def _dial(self, role: str, heard: Heard | None = None) -> Connection:
        async with asyncio.timeout(min(CONNECT_TIMEOUT, self._options.timeout)):
            host, port = await self._master() if self._options.sentinel else self._options.hosts[0]
            return await self._connect(host, port, role, heard)

    async def _connect(self, host: str, port: int, role: str, heard: Heard | None) -> Connection:
        options = self._options
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(options.timeout, heard), host, port, ssl=_tls(options)
        )
        try:
            await self._greet(connection, role)
        except BaseException:  # also when the caller is cancelled: no connection may be left
            connection.cut(ConnectionError("the server did not let us in"))
            raise
        return connection

    async def _greet(self, connection: Connection, role: str) -> None:
        options = self._options
        if options.username or options.password:
            user = (options.username,) if options.username else ()
            await connection.ask(("AUTH", *user, options.password or ""))
        await connection.ask(("CLIENT", "SETNAME", _name(role)))
        if options.database:
            await connection.ask(("SELECT", options.database))
        if self._marks.known and not options.cluster:
            self._marks.require(FIRST, await connection.ask(("GET", f"{options.tag(FIRST)}:mark")))

    async def _master(self) -> tuple[str, int]:
        if self._sentinel is None:
            from holdfast.store.valkey.driver import make_sentinel

            self._sentinel = make_sentinel(self._options, CONNECT_TIMEOUT)
        host, port = await self._sentinel.discover_master(self._options.sentinel)
        return str(host), int(port)

    def _of_cluster(self, role: str, size: int) -> Client:
        from holdfast.store.valkey.driver import make_cluster

        return make_cluster(self._options, _name(role), size, CONNECT_TIMEOUT)


def _name(role: str) -> str:
    return f"holdfast-{role}-{os.getpid()}"


def _tls(options: Options) -> SSLContext | None:
    if not options.tls:
        return None
    from holdfast.store.valkey.driver import make_tls

    return make_tls(options)
