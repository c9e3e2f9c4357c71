"""The connections: every command goes through here, with a timeout, a name and a retry.

A script is called by its digest. A server that does not know it (a first call, SCRIPT FLUSH, a
failover) is sent the text, which it then keeps, so nothing has to be loaded beforehand.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from redis.asyncio import BlockingConnectionPool, Connection, Redis, SSLConnection
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from holdfast.clock import Clock
from holdfast.errors import StoreUnavailable
from holdfast.job import Retention
from holdfast.store.valkey.failures import line_lost, script_missing, translated
from holdfast.store.valkey.options import Options
from holdfast.store.valkey.rows import to_micros
from holdfast.store.valkey.scripts import Script, script

CONNECT_TIMEOUT = 10.0
ACQUIRE_TIMEOUT = 15.0

Client = Any  # Redis or RedisCluster: their annotations describe the sync clients as well
Answer = TypeVar("Answer")
Given = Mapping[str, object]
Call = tuple[str, int, Given]


class Connections:
    """One client of one store, bound to the loop that opened it."""

    def __init__(self, options: Options, clock: Clock, role: str) -> None:
        self.options = options
        self.clock = clock
        self.role = role
        self._client: Client | None = None
        self._sentinel: Any = None
        self._last_arrival = 0
        self._kept_otherwise = Retention().other

    @property
    def partitions(self) -> range:
        return range(self.options.partitions)

    @property
    def is_open(self) -> bool:
        return self._client is not None

    @property
    def meta(self) -> str:
        return f"{{{self.options.namespace}}}:meta"

    @property
    def channel(self) -> str:
        return f"{{{self.options.namespace}}}:wake"

    def tag(self, partition: int) -> str:
        """What every key of a partition begins with; the braces make it one cluster slot."""
        return f"{{{self.options.namespace}:{partition}}}"

    def key(self, partition: int, name: str) -> str:
        return f"{self.tag(partition)}:{name}"

    def partition_of(self, job_id: str) -> int:
        """The last three hexadecimal digits of an id say where the job is."""
        count = self.options.partitions
        return 0 if count == 1 else int(job_id[-3:], 16) % count

    def by_partition(self, ids: Sequence[str]) -> dict[int, list[str]]:
        """Each id once, sorted by where it is."""
        found: dict[int, list[str]] = {}
        for job_id in dict.fromkeys(ids):
            found.setdefault(self.partition_of(job_id), []).append(job_id)
        return found

    async def open(self) -> None:
        if self._client is not None:
            return
        client = self._make_client(self.role, self.options.pool_size)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT + 5):
                await (client.initialize() if self.options.cluster else client.ping())
        except Exception as error:
            await close_client(client)
            raise translated(error, self.options.where) or error from error
        self._client = client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await close_client(client)
        sentinel, self._sentinel = self._sentinel, None
        for one in sentinel.sentinels if sentinel else ():
            await close_client(one)

    def listener(self) -> Client:
        """A client of its own for the one who listens: it needs no more than one connection.
        In a cluster any node will do, since what is published is told to all."""
        if not self.options.cluster:
            return self._make_client(f"{self.role}-listen", 1)
        if self._client is None:
            raise StoreUnavailable(f"{self.options.where}: the store is not open")
        node = self._client.get_random_node()
        return self._plain(node.host, node.port, f"{self.role}-listen", 1)

    def _make_client(self, role: str, size: int) -> Client:
        options = self.options
        if options.cluster:
            nodes = [ClusterNode(host, port) for host, port in options.hosts]
            settings = self._settings(role) | ({"ssl": True} if options.tls else {})
            return RedisCluster(startup_nodes=nodes, max_connections=size * 4, **settings)
        if options.sentinel:
            return self._by_sentinel(role, size)
        host, port = options.hosts[0]
        return self._plain(host, port, role, size)

    def _plain(self, host: str, port: int, role: str, size: int) -> Client:
        settings = self._settings(role)
        kind = SSLConnection if self.options.tls else Connection
        database = 0 if self.options.cluster else self.options.database
        pool = BlockingConnectionPool(
            max_connections=size,
            timeout=ACQUIRE_TIMEOUT,
            connection_class=kind,
            host=host,
            port=port,
            db=database,
            **settings,
        )
        return Redis.from_pool(pool)

    def _by_sentinel(self, role: str, size: int) -> Client:
        options = self.options
        settings = self._settings(role)
        if self._sentinel is None:
            timeouts = {"socket_timeout": None, "socket_connect_timeout": CONNECT_TIMEOUT}
            self._sentinel = Sentinel(  # type: ignore[no-untyped-call]  # the driver has no types here
                options.hosts, sentinel_kwargs=timeouts
            )
        if options.tls:
            settings["ssl"] = True
        return self._sentinel.master_for(
            options.sentinel, db=options.database, max_connections=size, **settings
        )

    def _settings(self, role: str) -> dict[str, Any]:
        """The driver tries nothing again by itself: whether that is safe, the verb knows.

        Nor does it measure time once it is connected. `run` does, for a call as a whole: the
        driver's own timeout starts a task for every command, and on Python 3.11 that task can
        swallow the cancellation of the caller.
        """
        options = self.options
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

    # Calling

    async def call(
        self, verb: str, partition: int, given: Given = MappingProxyType({}), *, again: bool = True
    ) -> Any:
        """Run the script of one verb in one partition."""
        chosen = script(verb)
        tag, values = self.tag(partition), chosen.values(self._complete(chosen, given))
        return await self.run(lambda client: evaluate(client, chosen, tag, values), again=again)

    async def call_each(self, calls: Sequence[Call], *, again: bool = True) -> list[Any]:
        """Run several, at once where they go to different partitions."""
        if len(calls) == 1:
            verb, partition, given = calls[0]
            return [await self.call(verb, partition, given, again=again)]
        return await gathered(
            [self.call(verb, partition, given, again=again) for verb, partition, given in calls]
        )

    async def call_in_order(
        self, verb: str, partition: int, many: Sequence[Mapping[str, object]]
    ) -> list[Any]:
        """Run one verb several times in one partition, in this order, in one round trip."""
        if len(many) == 1 or self.options.cluster:
            return [await self.call(verb, partition, given) for given in many]
        chosen = script(verb)
        tag = self.tag(partition)
        values = [chosen.values(self._complete(chosen, given)) for given in many]
        return await self.run(lambda client: _evaluate_in_order(client, chosen, tag, values))

    async def everywhere(self, verb: str, **given: object) -> list[Any]:
        return await self.call_each([(verb, partition, given) for partition in self.partitions])

    async def command(self, *words: Any) -> Any:
        return await self.run(lambda client: client.execute_command(*words))

    async def commands(self, many: Sequence[Sequence[Any]]) -> list[Any]:
        """Plain reads, pipelined where one server holds everything."""
        if self.options.cluster or len(many) < 2:
            return await gathered([self.command(*words) for words in many])

        async def piped(client: Client) -> list[Any]:
            async with client.pipeline(transaction=False) as pipe:
                for words in many:
                    pipe.execute_command(*words)
                found: list[Any] = await pipe.execute()
                return found

        return await self.run(piped)

    async def run(
        self, work: Callable[[Client], Awaitable[Answer]], *, again: bool = True
    ) -> Answer:
        """Do `work`; once more on a fresh connection if the one it had was stale, unless the
        caller wants to hear of it."""
        while True:
            if self._client is None:
                raise StoreUnavailable(f"{self.options.where}: the store is not open")
            try:
                async with asyncio.timeout(self.options.timeout):
                    return await work(self._client)
            except Exception as error:
                if not (again and line_lost(error)):
                    raise translated(error, self.options.where) or error from error
                again = False

    async def now_micros(self) -> int:
        moment = self.clock.override()
        return int(await self.call("now", 0)) if moment is None else to_micros(moment)

    async def arrivals(self, count: int) -> str:
        """The base of `count` batches of arrival numbers; '' lets the one partition's script
        take its own. Never the same twice, nor an earlier one."""
        if self.options.partitions == 1:
            return ""
        base = max(int(await self.call("arrival", 0), 16), self._last_arrival + 1)
        self._last_arrival = base + count
        return f"{base:013x}"

    def _complete(self, chosen: Script, given: Mapping[str, object]) -> Mapping[str, object]:
        """What every script may ask for besides what the verb gives."""
        more: dict[str, object] = {}
        if "now" in chosen.arguments:
            moment = self.clock.override()
            more["now"] = "" if moment is None else to_micros(moment)
        if "kept_otherwise" in chosen.arguments:
            more["kept_otherwise"] = self._kept_otherwise
        return more | dict(given)


async def gathered(work: Sequence[Awaitable[Answer]]) -> list[Answer]:
    """All at once; an error is raised when every one of them is over, so that none is left
    running behind the caller's back."""
    found = await asyncio.gather(*work, return_exceptions=True)
    answers: list[Answer] = []
    for one in found:
        if isinstance(one, BaseException):
            raise one
        answers.append(one)
    return answers


async def evaluate(client: Client, chosen: Script, tag: str, values: Sequence[Any]) -> Any:
    try:
        return await client.execute_command("EVALSHA", chosen.digest, 1, tag, *values)
    except Exception as error:
        if not script_missing(error):
            raise
    return await client.execute_command("EVAL", chosen.text, 1, tag, *values)


async def _evaluate_in_order(
    client: Client, chosen: Script, tag: str, many: Sequence[Sequence[Any]]
) -> list[Any]:
    """The first is sent alone, so that the server knows the script when the rest arrives; should
    it forget it in between, the rest are sent one by one."""
    answers = [await evaluate(client, chosen, tag, many[0])]
    async with client.pipeline(transaction=False) as pipe:
        for values in many[1:]:
            pipe.execute_command("EVALSHA", chosen.digest, 1, tag, *values)
        answers += await pipe.execute(raise_on_error=False)
    for n, answer in enumerate(answers):
        if isinstance(answer, Exception):
            if not script_missing(answer):
                raise answer
            answers[n] = await evaluate(client, chosen, tag, many[n])
    return answers


async def close_client(client: Client) -> None:
    """The pool is closed too: the driver leaves one that it was given alone."""
    await client.aclose()
    pool = getattr(client, "connection_pool", None)
    if pool is not None:
        await pool.disconnect()
