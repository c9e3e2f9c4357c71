"""Making clients: to one server, to the master that sentinels name, or to a cluster.

One server is spoken to over a line of our own, which costs a third of what the driver's client
does. Permits, moved keys and failing nodes of a cluster are left to the driver, which knows them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from ssl import SSLContext
from typing import Any

from redis import exceptions
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import RedisSSLContext
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from holdfast.store.valkey.options import Options
from holdfast.store.valkey.resp import Heard, Line

CONNECT_TIMEOUT = 10.0

Client = Any  # Direct or RedisCluster: the driver's annotations describe its sync clients as well
Dial = Callable[[], Awaitable[Line]]


class Direct:
    """A client of one server, with as much of the driver's surface as is needed here.

    Its line is made when it is first used, and made again after it was lost. Nothing is tried
    again by itself: whether that is safe, the verb knows.
    """

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._line: Line | None = None
        self._dialing: asyncio.Task[Line] | None = None
        self.line_number = 0

    async def initialize(self) -> None:
        await self._connected()

    async def execute_command(self, *words: Any) -> Any:
        line = self._line
        if line is None or line.lost.done():
            line = await self._connected()
        try:
            return await line.ask(words)
        except exceptions.ResponseError as error:
            if "READONLY" in str(error):
                # A replica by now: the next call finds out who took its place.
                line.cut(exceptions.ConnectionError("the master became a replica"))
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
        if self._line is not None:
            self._line.cut(exceptions.ConnectionError("the store is closed"))

    async def _connected(self) -> Line:
        """Everybody who needs the line waits for one attempt to make it."""
        if self._line is not None and not self._line.lost.done():
            return self._line
        if self._dialing is None:
            self._dialing = asyncio.create_task(self._connect(), name="holdfast-valkey-dial")
            self._dialing.add_done_callback(self._dialed)
        return await asyncio.shield(self._dialing)

    async def _connect(self) -> Line:
        self._line = await self._dial()
        self.line_number += 1
        return self._line

    def _dialed(self, task: asyncio.Task[Line]) -> None:
        self._dialing = None
        if not task.cancelled():
            task.exception()  # those who wait for it have it; nobody may, and that is no news


class Clients:
    """Makes the clients of one store."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._sentinel: Any = None

    def make(self, role: str, size: int) -> Client:
        """`size`: most connections to a node of a cluster."""
        if self._options.cluster:
            return self._of_cluster(role, size)
        return Direct(lambda: self._dial(role))

    async def listener(self, role: str, heard: Heard, node: tuple[str, int] | None) -> Line:
        """A line of its own for the one who listens, to this node or else to the server."""
        if node is None:
            return await self._dial(role, heard)
        async with asyncio.timeout(CONNECT_TIMEOUT):
            return await self._connect(*node, role, heard)

    async def close(self) -> None:
        """What is left when the clients are closed: the connections to the sentinels."""
        sentinel, self._sentinel = self._sentinel, None
        for one in sentinel.sentinels if sentinel else ():
            await one.aclose()
            await one.connection_pool.disconnect()

    async def _dial(self, role: str, heard: Heard | None = None) -> Line:
        async with asyncio.timeout(min(CONNECT_TIMEOUT, self._options.timeout)):
            host, port = await self._master() if self._options.sentinel else self._options.hosts[0]
            return await self._connect(host, port, role, heard)

    async def _connect(self, host: str, port: int, role: str, heard: Heard | None) -> Line:
        options = self._options
        _, line = await asyncio.get_running_loop().create_connection(
            lambda: Line(options.timeout, heard), host, port, ssl=_tls(options)
        )
        try:
            await self._greet(line, role)
        except BaseException:  # also when the caller is cancelled: no connection may be left
            line.cut(exceptions.ConnectionError("the server did not let us in"))
            raise
        return line

    async def _greet(self, line: Line, role: str) -> None:
        options = self._options
        if options.username or options.password:
            user = (options.username,) if options.username else ()
            await line.ask(("AUTH", *user, options.password or ""))
        await line.ask(("CLIENT", "SETNAME", _name(role)))
        if options.database:
            await line.ask(("SELECT", options.database))

    async def _master(self) -> tuple[str, int]:
        if self._sentinel is None:
            timeouts = {"socket_timeout": None, "socket_connect_timeout": CONNECT_TIMEOUT}
            self._sentinel = Sentinel(  # type: ignore[no-untyped-call]  # the driver has no types here
                self._options.hosts, sentinel_kwargs=timeouts
            )
        host, port = await self._sentinel.discover_master(self._options.sentinel)
        return str(host), int(port)

    def _of_cluster(self, role: str, size: int) -> Client:
        """The driver tries nothing again by itself. Nor does it measure time once it is connected:
        `Connections.run` does, for a call as a whole. With the driver's own timeout, which wraps
        every write in `wait_for`, a cancelled heartbeat was seen to go on."""
        options = self._options
        return RedisCluster(
            startup_nodes=[ClusterNode(host, port) for host, port in options.hosts],
            max_connections=size,
            username=options.username,
            password=options.password,
            socket_timeout=None,
            socket_connect_timeout=CONNECT_TIMEOUT,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
            client_name=_name(role),
            protocol=2,
            ssl=options.tls,
            **options.tls_settings,
        )


def _name(role: str) -> str:
    return f"holdfast-{role}-{os.getpid()}"


def _tls(options: Options) -> SSLContext | None:
    """As the driver reads these settings, so that they mean the same for a cluster."""
    if not options.tls:
        return None
    settings: dict[str, Any] = {"cert_reqs": "required", "check_hostname": True}
    for name, value in options.tls_settings.items():
        settings[name.removeprefix("ssl_")] = value
    return RedisSSLContext(**settings).get()
