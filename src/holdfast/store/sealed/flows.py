"""Flows: the arguments of their nodes are those of jobs, and their unique keys may quote values."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.flow.elements import element_ids
from holdfast.flow.kept import written_out
from holdfast.flow.model import FlowId, Grown, Growth, NewFlow, NewNode, NodeInfo
from holdfast.store.contract.flows import Flows, Started
from holdfast.store.sealed.records import Records, shown_or_opened

_replace = msgspec.structs.replace


class SealedFlows:
    def __init__(self, flows: Flows, records: Records) -> None:
        self._flows = flows
        self._records = records
        self.inputs = flows.inputs
        self.pause = flows.pause
        self.resume = flows.resume
        self.close = flows.close
        self.reopen = flows.reopen
        self.errands = flows.errands
        self.settle = flows.settle
        self.let_go = flows.let_go
        self.done = flows.done
        self.mend = flows.mend
        self.get = flows.get
        self.children = flows.children
        self.page = flows.page
        self.count = flows.count
        self.graph = flows.graph
        self.prune = flows.prune

    async def start(self, flows: Sequence[NewFlow]) -> list[Started]:
        return await self._flows.start([self._flow(flow) for flow in flows])

    async def start_within(self, connection: object, flows: Sequence[NewFlow]) -> list[Started]:
        return await self._flows.start_within(connection, [self._flow(flow) for flow in flows])

    def start_within_sync(self, connection: object, flows: Sequence[NewFlow]) -> list[Started]:
        return self._flows.start_within_sync(connection, [self._flow(flow) for flow in flows])

    async def extend(self, growths: Sequence[Growth]) -> list[Grown]:
        return await self._flows.extend([self._growth(growth) for growth in growths])

    async def nodes(self, flow: FlowId, limit: int, after: str | None = None) -> list[NodeInfo]:
        return [self._opened(node) for node in await self._flows.nodes(flow, limit, after)]

    def _flow(self, flow: NewFlow) -> NewFlow:
        key = flow.unique_key
        hidden = None if key is None else self._records.sealing.unique_key(key)
        return _replace(flow, nodes=self._nodes(flow.nodes), unique_key=hidden)

    def _growth(self, growth: Growth) -> Growth:
        new = growth.elements
        if new is None or new.like.headers is not None:  # which are bound to the id of each
            plain = written_out(growth)
            return _replace(plain, nodes=self._nodes(plain.nodes))
        ids = element_ids(growth.by, new.indexes, new.anew)
        pairs = zip(ids, new.args, strict=True)
        seal = self._records.new_job
        args = tuple(seal(_replace(new.like, id=job, args=args)).args for job, args in pairs)
        return _replace(growth, elements=_replace(new, args=args))

    def _nodes(self, nodes: Sequence[NewNode]) -> tuple[NewNode, ...]:
        return tuple(_replace(node, job=self._records.new_job(node.job)) for node in nodes)

    def _opened(self, node: NodeInfo) -> NodeInfo:
        owner = self._records.owner(node.job_id)
        return _replace(node, reason=shown_or_opened(owner, "reason", node.reason))
