"""What is read of flows. Nothing here writes."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from typing import Any

from holdfast.flow.model import FlowId, FlowInfo, FlowState, NodeInfo, NodeInput
from holdfast.job.ids import JobId
from holdfast.store.contract.flows import FlowFilter, FlowPage
from holdfast.store.valkey import flow_rows
from holdfast.store.valkey.connection import Call, ValkeyVerbs, batches
from holdfast.store.valkey.flow_layout import FlowRow
from holdfast.store.valkey.moments import to_micros
from holdfast.store.valkey.rows import readable

READ_BATCH = 500
LOOK = 5_000
"""How many flows a page looks at."""


class ValkeyFlowReading(ValkeyVerbs):
    """See `holdfast.store.contract.flows.Flows`."""

    async def inputs(self, ids: Sequence[JobId]) -> dict[JobId, NodeInput]:
        calls: list[Call] = [
            ("flows/inputs", partition, {"chosen": mine})
            for some in batches(ids, READ_BATCH)
            for partition, mine in self._connections.by_partition(some).items()
        ]
        answers = await self._connections.call_each(calls) if calls else []
        return {job: one for told in answers for job, one in node_inputs(told).items()}

    async def get(self, ids: Sequence[FlowId]) -> list[FlowInfo]:
        rows = await self._rows(ids)
        return [flow_rows.flow_info(flow, rows[flow]) for flow in ids if flow in rows]

    async def children(self, ids: Sequence[JobId]) -> dict[JobId, list[FlowId]]:
        wanted, to = list(dict.fromkeys(ids)), self._connections
        reads = [("SMEMBERS", to.key(to.partition_of(job), f"ch:{job}")) for job in wanted]
        answers = await to.commands(reads) if reads else []
        return {
            job: sorted(FlowId(flow.decode()) for flow in flows)
            for job, flows in zip(wanted, answers, strict=True)
            if flows
        }

    async def page(self, which: FlowFilter, limit: int, cursor: str | None = None) -> FlowPage:
        """A page looks at `LOOK` flows at most; it may be short, and another page may follow."""
        found: list[FlowInfo] = []
        looked = 0
        while looked < LOOK:
            step = min(READ_BATCH, max(limit + 1, 50))
            ids = await self._newest(which, cursor, step)
            rows = await self._rows(ids)
            for flow in ids:
                if flow in rows and _fits(which, rows[flow]):
                    if len(found) == limit:
                        return FlowPage(tuple(found), found[-1].id if found else None)
                    found.append(flow_rows.flow_info(flow, rows[flow]))
            if len(ids) < step:
                return FlowPage(tuple(found), None)
            looked, cursor = looked + len(ids), ids[-1]
        return FlowPage(tuple(found), cursor)

    async def _newest(self, which: FlowFilter, cursor: str | None, limit: int) -> list[str]:
        if which.ids:
            return heapq.nlargest(limit, {i for i in which.ids if cursor is None or i < cursor})
        given = {
            "below": "+" if cursor is None else f"({cursor}",
            "limit": limit,
            "running": "",
            "names": [f"flows:{state}" for state in sorted(which.states or FlowState)],
        }
        answers = await self._connections.everywhere("jobs/newest", **given)
        return heapq.nlargest(limit, {flow.decode() for answer in answers for flow in answer})

    async def _rows(self, ids: Sequence[str]) -> dict[str, FlowRow]:
        found: dict[str, FlowRow] = {}
        for some in batches(ids, READ_BATCH):
            places = list(self._connections.by_partition(some).items())
            reads = [
                ("MGET", *(self._connections.key(p, f"f:{flow}") for flow in mine))
                for p, mine in places
            ]
            for (_, mine), answer in zip(
                places, await self._connections.commands(reads), strict=True
            ):
                for flow, packed in zip(mine, answer, strict=True):
                    if packed is not None:
                        found[flow] = flow_rows.to_flow_row(packed)
        return found

    async def count(self) -> dict[FlowState, int]:
        places = [(state, p) for state in FlowState for p in self._connections.partitions]
        reads = [("ZCARD", self._connections.key(p, f"flows:{state}")) for state, p in places]
        counted: Counter[FlowState] = Counter()
        for (state, _), number in zip(places, await self._connections.commands(reads), strict=True):
            counted[state] += int(number)
        return {state: number for state, number in counted.items() if number}

    async def nodes(self, flow: FlowId, limit: int, after: str | None = None) -> list[NodeInfo]:
        partition = self._connections.partition_of(flow)
        found: list[NodeInfo] = []
        while room := min(limit - len(found), READ_BATCH):
            given = {"flow": flow, "behind": flow_rows.behind_name(after), "limit": room}
            answer = await self._connections.call("flows/nodes", partition, given)
            for parts in answer:
                node = readable(flow_rows.node_info, *parts)
                if node is not None:
                    found.append(node)
                after, _ = flow_rows.split_name(parts[0])
            if len(answer) < room:
                break
        return found

    async def graph(self, flow: FlowId) -> list[str]:
        key = self._connections.key(self._connections.partition_of(flow), f"fg:{flow}")
        return [text.decode() for text in await self._connections.command("LRANGE", key, 0, -1)]


def _fits(which: FlowFilter, row: FlowRow) -> bool:
    after, before = which.created_after, which.created_before
    return (
        (not which.states or row.state in which.states)
        and (not which.names or row.name in which.names)
        and set(which.tags) <= set(row.tags)
        and (after is None or row.created_at >= to_micros(after))
        and (before is None or row.created_at < to_micros(before))
    )


def node_inputs(answer: Sequence[Any]) -> dict[JobId, NodeInput]:
    """What `lua/flows/inputs.lua` answers. Nodes whose rows cannot be read are left out."""
    found: dict[JobId, NodeInput] = {}
    for ids, nodes, names, packed in answer:
        read = (readable(flow_rows.to_flow_row, row) for row in packed)
        flows = dict(zip(map(bytes.decode, names), read, strict=True))
        for job_id, row in zip(ids, nodes, strict=True):
            node = readable(flow_rows.to_node_row, row)
            flow = None if node is None else flows.get(node.flow)
            if node is not None and flow is not None:
                found[JobId(job_id.decode())] = flow_rows.node_input(node, flow)
    return found
