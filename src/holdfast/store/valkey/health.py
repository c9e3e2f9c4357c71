"""What Valkey can tell about the health of the store. Each check is bounded in cost."""

from __future__ import annotations

from collections.abc import AsyncIterator

from holdfast.job.state import ENDED, LIVE, UNTIMED, JobState
from holdfast.store.contract.health import MISPLACED, Finding, Looked, Severity, tell_nobody
from holdfast.store.valkey.connection import Connections, ValkeyVerbs
from holdfast.store.valkey.lists import Compared, Lists
from holdfast.store.valkey.replies import paired
from holdfast.store.valkey.schema import VERSION, Schema
from holdfast.store.valkey.server import PROMISES, Server, read_servers, weakest
from holdfast.store.valkey.telemetry import counts

SAMPLE_BATCH = 500  # jobs from either end of a set that are checked
ASIDE_SHOWN = 5
MEMORY_LEFT = 0.1  # the part of the memory limit below which doctor warns

# The sets that list jobs, with the states of the jobs in each.
LISTED: dict[str, frozenset[JobState]] = {
    "live": LIVE,
    **{f"untimed:{state}": frozenset({state}) for state in sorted(UNTIMED)},
    **{f"ended:{state}": frozenset({state}) for state in sorted(ENDED)},
}

Some = tuple[int, list[str]]
"""A partition, and ids of jobs in it."""

OK, WARNING, PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM


class ValkeyHealth(ValkeyVerbs):
    """See `holdfast.store.contract.health.Health`."""

    def __init__(self, connections: Connections, schema: Schema) -> None:
        super().__init__(connections)
        self._schema = schema
        self._lists = Lists(connections)

    async def check(self, *, deep: bool = False, looked: Looked = tell_nobody) -> list[Finding]:
        servers = await read_servers(self._connections)
        return [
            Finding("schema", OK, f"version {await self._schema.version()} of {VERSION}"),
            *await self._places(deep, looked),
            await self._aside(),
            *(() if deep else (await self._counters(),)),
            await self._leases(),
            *(_release(server) for server in servers),
            _durability(servers),
            *(_memory(server) for server in servers),
        ]

    async def repair(self, looked: Looked = tell_nobody) -> int:
        return (await self._lists.compare(looked, repair=True)).repaired

    async def _places(self, deep: bool, looked: Looked) -> list[Finding]:
        """Whether jobs are in the sets that their records name."""
        found = await (self._lists.compare(looked, repair=False) if deep else self._sample(looked))
        return [
            _judge(
                "jobs without a record or body",
                len(found.bodiless),
                found.jobs,
                "something other than holdfast removed keys; enqueue these jobs again",
            ),
            _judge(
                MISPLACED,
                len(found.misplaced),
                found.jobs,
                "something other than holdfast wrote to its keys: holdfast doctor --fix puts these "
                "jobs where their record says; report it if nothing else writes there",
            ),
        ]

    async def _sample(self, looked: Looked) -> Compared:
        found = Compared()
        async for partition, chosen in self._ends():
            await self._lists.check(partition, chosen, found)
            found.jobs += len(chosen)
            looked(found.jobs)
        return found

    async def _aside(self) -> Finding:
        """Jobs that a claim or a sweep met and could not read."""
        partitions = self._connections.partitions
        keys = [self._connections.key(partition, "aside") for partition in partitions]
        sizes = await self._connections.commands([("ZCARD", key) for key in keys])
        if not any(sizes):
            return Finding("jobs put aside", OK, "none")
        reads = [("ZRANGE", key, 0, ASIDE_SHOWN - 1) for key in keys]
        ids = [i.decode() for some in await self._connections.commands(reads) for i in some]
        saw = (
            f"{sum(sizes)} whose record or body is gone or damaged: {', '.join(ids[:ASIDE_SHOWN])}"
        )
        advice = "something other than holdfast wrote to its keys; enqueue these jobs again"
        return Finding("jobs put aside", PROBLEM, saw, advice)

    async def _ends(self) -> AsyncIterator[Some]:
        """The oldest and the newest jobs of each set."""
        for partition in self._connections.partitions:
            reads = []
            for name in LISTED:
                key = self._connections.key(partition, name)
                reads.append(("ZRANGEBYLEX", key, "-", "+", "LIMIT", 0, SAMPLE_BATCH))
                reads.append(("ZREVRANGEBYLEX", key, "+", "-", "LIMIT", 0, SAMPLE_BATCH))
            found = await self._connections.commands(reads)
            yield partition, sorted({job_id.decode() for ids in found for job_id in ids})

    async def _counters(self) -> Finding:
        """Compare the counters with the sizes of the sets they count. Jobs may move in between."""
        wrong = []
        for partition, counted in enumerate(await counts(self._connections)):
            reads = [("ZCARD", self._connections.key(partition, name)) for name in LISTED]
            sizes = await self._connections.commands(reads)
            for (name, states), size in zip(LISTED.items(), sizes, strict=True):
                told = sum(number for (state, *_), number in counted.items() if state in states)
                if abs(told - size) > max(1_000, size // 10):
                    wrong.append(f"{name}: {told} counted, {size} there")
        if not wrong:
            return Finding("counters", OK, "they agree with what is there")
        advice = "something other than holdfast wrote to its keys; counts and lags are wrong"
        return Finding("counters", PROBLEM, "; ".join(wrong), advice)

    async def _leases(self) -> Finding:
        holders = await self._holders()
        workers = await self._connections.command("HGETALL", self._connections.key(0, "workers"))
        orphans = holders - {worker for worker, _ in paired(workers)}
        if orphans:  # a worker that left meanwhile holds nothing now
            orphans &= await self._holders()
        if not orphans:
            return Finding("running jobs without a worker", OK, "none")
        advice = "a running worker reclaims them; start one if none is up"
        saw = f"{len(orphans)} workers are gone and still hold jobs"
        return Finding("running jobs without a worker", WARNING, saw, advice)

    async def _holders(self) -> set[str]:
        """The workers that hold jobs."""
        partitions = self._connections.partitions
        reads = [("SMEMBERS", self._connections.key(p, "holders")) for p in partitions]
        return {w.decode() for some in await self._connections.commands(reads) for w in some}


def _judge(check: str, count: int, looked: int, advice: str) -> Finding:
    if not count:
        return Finding(check, OK, f"none of {looked:,} looked at")
    return Finding(check, PROBLEM, f"{count} of {looked:,} looked at", advice)


def _release(server: Server) -> Finding:
    if server.is_old:
        return Finding("server version", PROBLEM, server.version, "upgrade to 6.2 or later")
    return Finding("server version", OK, server.version)


def _durability(servers: list[Server]) -> Finding:
    promise = weakest(servers)
    saw = PROMISES[promise]
    if promise in ("always", "everysec"):
        return Finding("durability", OK, saw)
    advice = "turn on appendonly, with appendfsync everysec or always, on every node"
    return Finding("durability", WARNING, saw, advice)


def _memory(server: Server) -> Finding:
    used = f"{server.used_memory / 2**20:.0f} MiB used"
    if not server.max_memory:
        return Finding("memory", OK, f"{used}, no limit set")
    saw = f"{used} of {server.max_memory / 2**20:.0f} MiB"
    if server.evicts:
        advice = "set maxmemory-policy to noeviction: the server may remove jobs as it is"
        return Finding("memory", PROBLEM, f"{saw}, evicts by {server.policy}", advice)
    if server.used_memory > server.max_memory * (1 - MEMORY_LEFT):
        advice = "enqueues will be refused: raise maxmemory, or shorten retention"
        return Finding("memory", WARNING, saw, advice)
    return Finding("memory", OK, saw)
