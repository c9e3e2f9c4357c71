"""What is left to the driver: clusters, sentinels, and how settings of TLS are read.

The driver takes as long to import as all other modules of a worker together. So only a store that
needs one of these imports this module.
"""

from __future__ import annotations

from ssl import SSLContext
from typing import Any

from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import RedisSSLContext
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from holdfast.store.valkey.options import Options


def make_cluster(options: Options, name: str, size: int, connect_timeout: float) -> RedisCluster:
    """The driver is told to repeat nothing, and to measure no time once it is connected:
    `Connections.run` measures a call as a whole. With the driver's own timeout, which wraps
    every write in `wait_for`, a cancelled heartbeat was seen to go on."""
    return RedisCluster(
        startup_nodes=[ClusterNode(host, port) for host, port in options.hosts],
        max_connections=size,
        username=options.username,
        password=options.password,
        socket_timeout=None,
        socket_connect_timeout=connect_timeout,
        socket_keepalive=True,
        retry=Retry(NoBackoff(), 0),
        client_name=name,
        protocol=2,
        ssl=options.tls,
        **options.tls_settings,
    )


def make_sentinel(options: Options, connect_timeout: float) -> Any:
    timeouts = {"socket_timeout": None, "socket_connect_timeout": connect_timeout}
    return Sentinel(options.hosts, sentinel_kwargs=timeouts)  # type: ignore[no-untyped-call]  # the driver has no types here


def make_tls(options: Options) -> SSLContext:
    """Read these settings as the driver does, so that they mean the same for a cluster."""
    settings: dict[str, Any] = {"cert_reqs": "required", "check_hostname": True}
    for name, value in options.tls_settings.items():
        settings[name.removeprefix("ssl_")] = value
    return RedisSSLContext(**settings).get()
