"""The way to the server: every command goes through here, with a timeout, a name and a retry.

A script is called by its digest. If the server does not know the script (a first call, SCRIPT
FLUSH, a failover), it is sent the text and keeps it, so nothing has to be loaded beforehand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, TypeVar

from holdfast.clock import Clock
from holdfast.errors import StoreUnavailable
from holdfast.job.policy import Retention
from holdfast.store.valkey.clients import CONNECT_TIMEOUT, Client, Clients
from holdfast.store.valkey.errors import connection_lost, script_missing, translated
from holdfast.store.valkey.marks import Marks
from holdfast.store.valkey.moments import to_micros
from holdfast.store.valkey.options import Options
from holdfast.store.valkey.resp import Connection, Heard
from holdfast.store.valkey.scripts import Script, script

NODES = 4

Answer = TypeVar("Answer")
Thing = TypeVar("Thing")
Given = Mapping[str, object]
Call = tuple[str, int, Given]


class Connections:
    """One client of one store, bound to the loop that opened it."""

    def __init__(
        self, options: Options, clock: Clock, role: str, marks: Marks | None = None
    ) -> None:
        self.options = options
        self.marks = Marks(options.where) if marks is None else marks
        self.clock = clock
        self.role = role
        self._client: Client | None = None
        self._clients = Clients(options, self.marks)
        # In a cluster a call uses one connection at a time, so this many need no more of them.
        self._size = options.pool_size * NODES
        self._room = asyncio.Semaphore(self._size)
        self._last_arrival = 0
        self._kept_otherwise = Retention().other

    @property
    def partitions(self) -> range:
        return range(self.options.partitions)

    @property
    def is_open(self) -> bool:
        return self._client is not None

    @property
    def connection_number(self) -> int:
        """How often this client has connected; 0 where the driver does that."""
        return 0 if self._client is None else getattr(self._client, "connection_number", 0)

    @property
    def meta(self) -> str:
        return f"{{{self.options.namespace}}}:meta"

    @property
    def channel(self) -> str:
        return f"{{{self.options.namespace}}}:wake"

    def tag(self, partition: int) -> str:
        return self.options.tag(partition)

    def key(self, partition: int, name: str) -> str:
        return f"{self.tag(partition)}:{name}"

    def partition_of(self, job_id: str) -> int:
        """The last three hexadecimal digits of an id say where the job is."""
        count = self.options.partitions
        return 0 if count == 1 else int(job_id[-3:], 16) % count

    def by_partition(self, ids: Sequence[str]) -> dict[int, list[str]]:
        """Each id once, by the partition of its job."""
        found: dict[int, list[str]] = {}
        for job_id in dict.fromkeys(ids):
            found.setdefault(self.partition_of(job_id), []).append(job_id)
        return found

    def places_by_partition(self, ids: Sequence[str]) -> dict[int, list[int]]:
        """Where in this list the jobs of each partition stand."""
        places: dict[int, list[int]] = {}
        for n, job_id in enumerate(ids):
            places.setdefault(self.partition_of(job_id), []).append(n)
        return places

    async def open(self) -> None:
        if self._client is not None:
            return
        client = self._clients.make(self.role, self._size)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT + 5):
                await client.initialize()
        except BaseException as error:  # also when the caller is cancelled: nothing may be left
            await client.aclose()
            known = translated(error, self.options.where) if isinstance(error, Exception) else None
            raise known or error from error
        self._client = client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
        await self._clients.close()

    async def listener(self, heard: Heard) -> Connection:
        """A connection that only listens. In a cluster any node will do, because each node gets
        what is published on any other."""
        role = f"{self.role}-listen"
        if not self.options.cluster:
            return await self._clients.listener(role, heard, None)
        if self._client is None:
            raise StoreUnavailable(f"{self.options.where}: the store is not open")
        node = self._client.get_random_node()
        return await self._clients.listener(role, heard, (node.host, node.port))

    # Calling

    async def call(
        self, verb: str, partition: int, given: Given = MappingProxyType({}), *, again: bool = True
    ) -> Any:
        """Run the script of one verb in one partition."""
        chosen = script(verb)
        tag, whole = self.tag(partition), self._complete(chosen, given)
        try:
            values = chosen.values(whole)
        except (UnicodeError, OverflowError) as error:
            raise translated(error, self.options.where) or error from error
        return await self.run(lambda client: evaluate(client, chosen, tag, values), again=again)

    async def call_each(self, calls: Sequence[Call]) -> list[Any]:
        """Run several, at once where they go to different partitions."""
        if len(calls) == 1:
            return [await self.call(*calls[0])]
        return await gathered([self.call(*one) for one in calls])

    async def in_order(self, work: Sequence[Callable[[], Awaitable[Answer]]]) -> list[Answer]:
        """Calls in one partition that the server must run in this order. One connection keeps the
        order by itself, so all calls are sent at once; the driver of a cluster does not keep it."""
        if self.options.cluster:
            return [await one() for one in work]
        return await gathered([one() for one in work])

    async def everywhere(self, verb: str, **given: object) -> list[Any]:
        return await self.call_each([(verb, partition, given) for partition in self.partitions])

    async def command(self, *words: Any) -> Any:
        return await self.run(lambda client: client.execute_command(*words))

    async def require_marked(self, partitions: Iterable[int]) -> None:
        """Raise an error unless these partitions are those of this very store."""
        asked = list(partitions)
        reads = [("GET", self.key(partition, "mark")) for partition in asked]
        for partition, found in zip(asked, await self.commands(reads), strict=True):
            self.marks.require(partition, found)

    async def commands(self, many: Sequence[Sequence[Any]]) -> list[Any]:
        """Plain reads, all sent at once."""
        return await gathered([self.command(*words) for words in many])

    async def run(
        self, work: Callable[[Client], Awaitable[Answer]], *, again: bool = True
    ) -> Answer:
        """Do `work`. If its connection is lost, do it once more on a fresh one, unless `again` is
        False: then the caller decides what the loss means."""
        while True:
            if self._client is None:
                raise StoreUnavailable(f"{self.options.where}: the store is not open")
            try:
                if not self.options.cluster:  # our own connection measures time itself
                    return await work(self._client)
                async with asyncio.timeout(self.options.timeout), self._room:
                    return await work(self._client)
            except Exception as error:
                if not (again and connection_lost(error)):
                    raise translated(error, self.options.where) or error from error
                again = False

    async def now_micros(self) -> int:
        moment = self.clock.override()
        return int(await self.call("store/now", 0)) if moment is None else to_micros(moment)

    async def arrivals(self, count: int) -> str:
        """The base of `count` batches of arrival numbers. Each base is later than those before it.
        '' where there is one partition: its scripts take their own."""
        if self.options.partitions == 1:
            return ""
        base = max(int(await self.call("store/arrival", 0), 16), self._last_arrival + 1)
        self._last_arrival = base + count
        return f"{base:013x}"

    def _complete(self, chosen: Script, given: Given) -> Given:
        """Add the arguments that every script may declare besides those that the verb gives."""
        whole = dict(given)
        if "now" in chosen.names:
            moment = self.clock.override()
            whole["now"] = "" if moment is None else to_micros(moment)
        if "kept_otherwise" in chosen.names:
            whole["kept_otherwise"] = self._kept_otherwise
        if "channel" in chosen.names:
            whole["channel"] = self.channel
        return whole


class ValkeyVerbs:
    """Base of the classes that hold the verbs of a noun: each has the way to the server."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections


def batches(things: Iterable[Thing], size: int) -> Iterator[list[Thing]]:
    """So many at a time: a script that takes long keeps every other client waiting."""
    rest = iter(things)
    while batch := list(islice(rest, size)):
        yield batch


async def gathered(work: Sequence[Awaitable[Answer]]) -> list[Answer]:
    """Await all at once. An error is raised when all are done, so that none is left running
    behind the caller's back."""
    if len(work) == 1:
        return [await work[0]]
    answers: list[Answer] = []
    for one in await asyncio.gather(*work, return_exceptions=True):
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
