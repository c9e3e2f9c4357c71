"""The settings of the server: whether it may forget jobs, and what it promises to keep.

Managed services may forbid CONFIG. Then the settings come from INFO, and a setting that neither of
them shows is called unknown.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import msgspec

from holdfast.errors import StoreError, StoreUnavailable
from holdfast.store.valkey.clients import Client, Direct
from holdfast.store.valkey.connection import Connections
from holdfast.store.valkey.errors import response_errors

OLDEST = (6, 2)
ASK_EVERY_SECONDS = 2.0


class Server(msgspec.Struct, frozen=True):
    """One node as it is set up."""

    version: str
    max_memory: int
    used_memory: int
    policy: str
    append_only: bool
    fsync: str | None
    snapshots: bool | None

    @property
    def evicts(self) -> bool:
        return self.max_memory > 0 and self.policy != "noeviction"

    @property
    def is_old(self) -> bool:
        numbers = [int(part) for part in self.version.split(".")[:2] if part.isdigit()]
        return tuple(numbers) < OLDEST

    @property
    def promise(self) -> str:
        """One word for what survives a crash."""
        if self.append_only:
            return self.fsync or "unknown"
        return "snapshots" if self.snapshots else "none"


PROMISES = {
    "always": "always: an acknowledged write survives a crash of the server and of its machine",
    "everysec": "everysec: a crash of the server's machine may lose the last second of writes",
    "no": "no fsync: a crash of the server's machine may lose the last half minute of writes",
    "unknown": "append-only file on, but the server does not tell how often it is synced",
    "snapshots": "snapshots only: a crash loses all writes since the last one",
    "none": "none: a restart of the server loses every job",
}
_FROM_WEAKEST = ("none", "snapshots", "no", "unknown", "everysec", "always")


def weakest(servers: list[Server]) -> str:
    """A cluster promises what its weakest node does."""
    return min((server.promise for server in servers), key=_FROM_WEAKEST.index)


async def read_servers(connections: Connections) -> list[Server]:
    """The settings of every node that holds keys."""

    async def all_nodes(client: Client) -> list[Server]:
        if not connections.options.cluster:
            return [await _read_server(connections, client)]
        nodes = client.get_primaries()
        return [await _read_server(connections, client, target_nodes=node) for node in nodes]

    return await connections.run(all_nodes)


async def _read_server(connections: Connections, client: Client, **where: Any) -> Server:
    patterns = ("append*", "save", "maxmemory*")
    settings = [partial(_config, client, pattern, **where) for pattern in patterns]
    ask = partial(client.execute_command, "INFO", **where)
    told, *found = await connections.in_order([ask, *settings])
    info = _facts(told)
    config = {name: value for some in found for name, value in some.items()}
    return Server(
        version=str(info.get("valkey_version") or info.get("redis_version", "0")),
        max_memory=int(info.get("maxmemory", config.get("maxmemory", 0))),
        used_memory=int(info.get("used_memory", 0)),
        policy=str(info.get("maxmemory_policy", config.get("maxmemory-policy", "noeviction"))),
        append_only=bool(int(info.get("aof_enabled", 0))),
        fsync=config.get("appendfsync"),
        snapshots=bool(config["save"]) if "save" in config else None,
    )


async def _config(client: Client, pattern: str, **where: Any) -> dict[str, str]:
    try:
        found = await client.execute_command("CONFIG", "GET", pattern, **where)
    except response_errors():
        return {}
    if isinstance(found, list):
        found = dict(zip(found[::2], found[1::2], strict=True))
    return {_text(name): _text(value) for name, value in found.items()}


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


class Restarts:
    """Notices that a server was restarted, or replaced by its replica.

    The new server may have lost what the old one acknowledged: then the record of an ended job says
    that it runs, at a worker that knows nothing of it. So the next claim fails once as if its reply
    was lost, and the worker compares what the store says it runs with what it knows.

    No connection survives its server, so a server is asked for its run id once for each connection.
    The driver of a cluster hides its connections: there the nodes are asked every two seconds.
    """

    def __init__(self) -> None:
        self._known: frozenset[str] | None = None
        self._connection = 0
        self._ask_at = 0.0

    async def require_none(self, connections: Connections) -> None:
        number, now = connections.connection_number, time.monotonic()
        if number == self._connection if number else now < self._ask_at:
            return
        known, self._known = self._known, await connections.run(_run_ids)
        self._connection, self._ask_at = number, now + ASK_EVERY_SECONDS
        if known is not None and known != self._known:
            raise StoreUnavailable(
                f"{connections.options.where} was restarted or replaced, and may have lost its "
                "last writes: what runs here is looked into"
            )


async def _run_ids(client: Client) -> frozenset[str]:
    if isinstance(client, Direct):
        return frozenset({_run_id(await client.execute_command("INFO", "server"))})
    found = [
        _run_id(await client.execute_command("INFO", "server", target_nodes=node))
        for node in client.get_primaries()
    ]
    return frozenset(found)


def _run_id(info: Any) -> str:
    return str(_facts(info).get("run_id", ""))


def _facts(info: Any) -> dict[str, Any]:
    """What INFO says. The driver of a cluster has parsed it already."""
    if isinstance(info, dict):
        return info
    lines = (line.partition(":") for line in _text(info).splitlines())
    return {name: value for name, colon, value in lines if colon}


def refuse_eviction(servers: list[Server], where: str) -> None:
    """Refuse servers that evict keys: they would lose jobs, and parts of jobs, in silence."""
    for server in servers:
        if server.evicts:
            raise StoreError(
                f"{where} may evict jobs: its maxmemory-policy is {server.policy!r}, and it must "
                "be 'noeviction' (CONFIG SET maxmemory-policy noeviction)"
            )
