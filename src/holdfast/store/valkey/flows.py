"""Flows on Valkey: each verb is one script, because a flow and its nodes lie in one partition.

A script writes a flow whole, or not at all. A call that starts many flows is cut into bites of some
hundred nodes, so that no script keeps the server busy for long; a flow is never cut.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple, cast

from holdfast.errors import BadFlow, BadOption, NotCapable
from holdfast.flow.kept import is_unchecked, without_known, written_out
from holdfast.flow.model import (
    CloseWhat,
    Errand,
    ErrandKind,
    FlowId,
    Grown,
    Growth,
    Mending,
    NewFlow,
    Reopening,
)
from holdfast.job.ids import JobId, is_limited_id, partition_bits
from holdfast.job.record import NewJob
from holdfast.store.contract.flows import Started, StartWord
from holdfast.store.contract.records import Capability
from holdfast.store.valkey import flow_requests
from holdfast.store.valkey.connection import Call, Connections, gathered
from holdfast.store.valkey.flow_reading import ValkeyFlowReading
from holdfast.store.valkey.inserting import (
    CALLED_FROM_ELSEWHERE,
    KEYED_AND_LIMITED,
    require_in_reach,
)
from holdfast.store.valkey.moments import to_datetime
from holdfast.store.valkey.replies import paired

START_BATCH = 500  # nodes of one script, unless one flow has more
PRUNE_BATCH = 1_000
KNOWN = b"known"
"""The flow may have elements of a growth already, or a node behind them waits no more."""


class Placed(NamedTuple):
    """A flow, its place in the call, and how many nodes of the call come before it."""

    n: int
    first: int
    flow: NewFlow


class ValkeyFlows(ValkeyFlowReading):
    """See `holdfast.store.contract.flows.Flows` for what each verb promises."""

    # Writing graphs

    async def start(self, flows: Sequence[NewFlow]) -> list[Started]:
        placed: dict[int, list[Placed]] = {}
        first = 0
        for n, flow in enumerate(flows):
            require_one_partition(self._connections, flow)
            partition = self._connections.partition_of(flow.id)
            placed.setdefault(partition, []).append(Placed(n, first, flow))
            first += len(flow.nodes)
        base = await self._connections.arrivals(1) if placed else ""
        found: dict[int, Started] = {}
        await gathered([self._start_in(p, base, mine, found) for p, mine in placed.items()])
        return [found[n] for n in range(len(flows))]

    async def _start_in(
        self, partition: int, base: str, flows: list[Placed], found: dict[int, Started]
    ) -> None:
        """A bite is packed when it is sent: the server works on the one before meanwhile."""
        tag = self._connections.tag(partition)

        async def start(bite: list[Placed]) -> None:
            rows = [flow_requests.new_flow_row(one.flow, tag, count(one.first)) for one in bite]
            given = {"arrival": base, "flows": rows}
            answer = await self._connections.call("flows/start", partition, given)
            for one, (flow, how) in zip(bite, paired(answer), strict=True):
                found[one.n] = Started(FlowId(flow), cast("StartWord", how.decode()))

        await self._connections.in_order([partial(start, bite) for bite in _bites(flows)])

    async def start_within(self, connection: object, flows: Sequence[NewFlow]) -> list[Started]:
        return self.start_within_sync(connection, flows)

    def start_within_sync(self, connection: object, flows: Sequence[NewFlow]) -> list[Started]:
        raise NotCapable("valkey", Capability.JOIN_TRANSACTION.value)

    async def extend(self, growths: Sequence[Growth]) -> list[Grown]:
        """One after the other: a growth may name what the one before it added."""
        grown: list[Grown] = []
        for growth in growths:
            new = growth.elements
            is_short = new is None or new.are_plain
            grown.append(await self._extend(growth if is_short else written_out(growth)))
        return grown

    async def _extend(self, growth: Growth) -> Grown:
        """The script refuses a growth with nodes that the flow has already, and names them."""
        require_beside_flow(self._connections, growth.flow, (one.job.id for one in growth.nodes))
        require_home(self._connections, growth.flow, [one.job for one in growth.nodes])
        if growth.elements is not None:  # their ids end as that of the map does
            require_beside_flow(self._connections, growth.flow, [growth.by])
        tag = self._connections.tag(self._connections.partition_of(growth.flow))
        given = {"growth": flow_requests.growth_row(growth, tag)}
        answer = await self._change("flows/extend", growth.flow, given)
        if answer == KNOWN:
            return await self._extend(written_out(growth))
        if not isinstance(answer, list):
            return Grown(answer.decode())
        known = {name: JobId(job.decode()) for name, job in paired(answer)}
        left = without_known(growth, known)
        if is_unchecked(growth, left):
            return Grown.CHANGED
        return await self._extend(left) if left.nodes else Grown.GROWN

    async def reopen(self, plans: Sequence[Reopening], by: str | None = None) -> list[FlowId]:
        """Not repeated when the connection is lost: the first try may have changed the epoch."""
        return [
            plan.flow
            for plan in plans
            if await self._change(
                "flows/reopen",
                plan.flow,
                {"plan": flow_requests.reopening_row(plan), "by": by or ""},
                again=False,
            )
        ]

    async def mend(self, plans: Sequence[Mending]) -> list[FlowId]:
        return [
            plan.flow
            for plan in plans
            if await self._change(
                "flows/mend", plan.flow, {"plan": flow_requests.mending_row(plan)}
            )
        ]

    async def _change(
        self, verb: str, flow: FlowId, given: Mapping[str, object], *, again: bool = True
    ) -> Any:
        partition, base = self._connections.partition_of(flow), await self._connections.arrivals(1)
        return await self._connections.call(
            verb, partition, {**given, "arrival": base}, again=again
        )

    # Operating

    async def pause(self, ids: Sequence[FlowId], reason: str | None = None) -> list[FlowId]:
        return await self._each("flows/pause", ids, reason=reason or "")

    async def resume(self, ids: Sequence[FlowId]) -> list[FlowId]:
        return await self._each("flows/resume", ids, arrival=await self._connections.arrivals(1))

    async def close(
        self, ids: Sequence[FlowId], what: CloseWhat, reason: str | None = None
    ) -> list[FlowId]:
        return await self._each("flows/close", ids, what=what.value, reason=reason or "")

    async def settle(self, ids: Sequence[FlowId]) -> None:
        await self._each("flows/settle", ids, arrival=await self._connections.arrivals(1))

    async def _each(self, verb: str, ids: Sequence[FlowId], **given: object) -> list[FlowId]:
        """Run a verb on chosen flows; answers the flows that it changed, in the order asked."""
        calls: list[Call] = [
            (verb, partition, {**given, "chosen": mine})
            for partition, mine in self._connections.by_partition(ids).items()
        ]
        answers = await self._connections.call_each(calls) if calls else []
        changed = {flow.decode() for answer in answers for flow in answer or ()}
        return [flow for flow in dict.fromkeys(ids) if flow in changed]

    async def let_go(self, flow: FlowId, jobs: Sequence[JobId]) -> None:
        key = self._connections.key(self._connections.partition_of(flow), f"let-go:{flow}")
        if jobs:
            await self._connections.command("ZADD", key, *(x for job in jobs for x in (0, job)))

    async def errands(self, limit: int, after: str | None = None) -> list[Errand]:
        start = "-" if after is None else f"({after}"
        reads = [
            ("ZRANGEBYLEX", self._connections.key(p, "errands"), start, "+", "LIMIT", 0, limit)
            for p in self._connections.partitions
        ]
        found = [text for some in await self._connections.commands(reads) for text in some]
        return [_errand(text.decode()) for text in heapq.nsmallest(limit, found)]

    async def done(self, errands: Sequence[str]) -> None:
        mine: dict[int, list[str]] = {}
        for text in errands:
            partition = self._connections.partition_of(_errand(text).flow)
            mine.setdefault(partition, []).append(text)
        removals = [
            ("ZREM", self._connections.key(partition, "errands"), *some)
            for partition, some in mine.items()
        ]
        await self._connections.commands(removals)

    async def prune(self, limit: int) -> int:
        """A large flow goes in several bites."""
        removed = 0
        for partition in self._connections.partitions:
            has_more = True
            while removed < limit and has_more:
                given = {"limit": limit - removed, "room": PRUNE_BATCH}
                gone, has_room = await self._connections.call("flows/prune", partition, given)
                removed += gone
                has_more = not has_room
        return removed


def _bites(flows: Iterable[Placed]) -> Iterator[list[Placed]]:
    bite: list[Placed] = []
    nodes = 0
    for one in flows:
        if bite and nodes + len(one.flow.nodes) > START_BATCH:
            yield bite
            bite, nodes = [], 0
        bite.append(one)
        nodes += len(one.flow.nodes)
    if bite:
        yield bite


def require_one_partition(connections: Connections, flow: NewFlow) -> None:
    """One script has to see a flow, its unique key and all its nodes."""
    partitions = connections.options.partitions
    if partitions == 1:
        return
    key = flow.unique_key
    if key is not None and any(node.job.buckets for node in flow.nodes):
        raise NotCapable("valkey", KEYED_AND_LIMITED)
    if key is not None and connections.partition_of(flow.id) != partition_bits(key) % partitions:
        raise BadOption(
            f"id of a flow with the unique key {key!r}",
            "one that new_flow_id(beside=key) mints: in a store of several partitions a flow lies "
            "where its key does (leave the id out)",
            flow.id,
        )
    if flow.parent is not None:
        require_beside_flow(connections, flow.id, [flow.parent])
        require_home(connections, flow.id, [node.job for node in flow.nodes])
    require_in_reach(connections, [node.job for node in flow.nodes])
    require_beside_flow(connections, flow.id, (node.job.id for node in flow.nodes))


def require_home(connections: Connections, flow: FlowId, jobs: Iterable[NewJob]) -> None:
    """A flow that is called lies beside its caller, and one that grows stays where it is. Either
    may lie where all buckets are by chance. Whether it may have jobs that pass limits must not
    hang on that: it may if it was put there."""
    if connections.options.partitions == 1 or not any(job.buckets for job in jobs):
        return
    if not is_limited_id(flow):
        raise BadFlow(CALLED_FROM_ELSEWHERE)


def require_beside_flow(connections: Connections, flow: FlowId, ids: Iterable[JobId]) -> None:
    place = connections.partition_of(flow)
    for job_id in ids:
        if connections.partition_of(job_id) != place:
            raise BadOption(
                f"id of a job of the flow {flow}",
                "one that new_node_id(flow) mints: a flow lies in one partition with its nodes, "
                "and beside its parent",
                job_id,
            )


def _errand(text: str) -> Errand:
    """As `lua/parts/flows.lua` writes it: the text is the errand, and its id."""
    _, at, kind, flow, job, what = text.split(":")
    return Errand(
        text,
        FlowId(flow),
        ErrandKind(kind),
        JobId(job) if job else None,
        CloseWhat(what) if what else None,
        to_datetime(int(at)),
    )
