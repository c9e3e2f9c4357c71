"""Making clients of the driver: to one server, to a cluster, or to the master of sentinels."""

from __future__ import annotations

import os
from typing import Any

from redis.asyncio import BlockingConnectionPool, Connection, Redis, SSLConnection
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from holdfast.store.valkey.options import Options

CONNECT_TIMEOUT = 10.0
ACQUIRE_TIMEOUT = 15.0

Client = Any  # Redis or RedisCluster: their annotations describe the sync clients as well


class Clients:
    """Makes the clients of one store."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._sentinel: Any = None

    def make(self, role: str, size: int) -> Client:
        """A client with at most so many connections, to a node each where there are several."""
        options = self._options
        if options.cluster:
            nodes = [ClusterNode(host, port) for host, port in options.hosts]
            settings = self._settings(role) | ({"ssl": True} if options.tls else {})
            return RedisCluster(startup_nodes=nodes, max_connections=size, **settings)
        if options.sentinel:
            return self._by_sentinel(role, size)
        host, port = options.hosts[0]
        return self.plain(host, port, role, size)

    def plain(self, host: str, port: int, role: str, size: int) -> Client:
        """A client of one server, whatever it is part of."""
        pool = BlockingConnectionPool(
            max_connections=size,
            timeout=ACQUIRE_TIMEOUT,
            connection_class=SSLConnection if self._options.tls else Connection,
            host=host,
            port=port,
            db=self._options.database,
            **self._settings(role),
        )
        return Redis.from_pool(pool)

    async def close(self) -> None:
        """What is left when the clients are closed: the connections to the sentinels."""
        sentinel, self._sentinel = self._sentinel, None
        for one in sentinel.sentinels if sentinel else ():
            await close_client(one)

    def _by_sentinel(self, role: str, size: int) -> Client:
        options = self._options
        if self._sentinel is None:
            timeouts = {"socket_timeout": None, "socket_connect_timeout": CONNECT_TIMEOUT}
            self._sentinel = Sentinel(  # type: ignore[no-untyped-call]  # the driver has no types here
                options.hosts, sentinel_kwargs=timeouts
            )
        settings = self._settings(role) | ({"ssl": True} if options.tls else {})
        return self._sentinel.master_for(
            options.sentinel, db=options.database, max_connections=size, **settings
        )

    def _settings(self, role: str) -> dict[str, Any]:
        """The driver tries nothing again by itself: whether that is safe, the verb knows.

        Nor does it measure time once it is connected. `Connections.run` does, for a call as a
        whole: with the driver's own timeout, which wraps every write in `wait_for`, a cancelled
        heartbeat was seen to go on.
        """
        options = self._options
        return {
            "username": options.username,
            "password": options.password,
            "socket_timeout": None,
            "socket_connect_timeout": CONNECT_TIMEOUT,
            "socket_keepalive": True,
            "retry": Retry(NoBackoff(), 0),
            "client_name": f"holdfast-{role}-{os.getpid()}",
            "protocol": 2,
            **(options.tls_settings if options.tls else {}),
        }


async def close_client(client: Client) -> None:
    """The pool is closed too: the driver leaves one that it was given alone."""
    await client.aclose()
    pool = getattr(client, "connection_pool", None)
    if pool is not None:
        await pool.disconnect()
