"""Compares the counts of live flows with what their graphs say, and mends what differs.

It is a net that must find nothing: each count is changed in the transaction that ends a node. A
flow is read in several steps, and may move between them; so a difference counts only if it is the
same when the flow is read again.

A sweep looks at some hundred nodes, and the next one goes on behind it. Where very many flows are
live, reading all of them every few seconds would cost more than running them.
"""

from __future__ import annotations

from holdfast.background.counters import Swept
from holdfast.background.reconciler import Reconciler
from holdfast.flow.drift import drift_of, mending_of
from holdfast.flow.errands import pages_of
from holdfast.flow.graph import Graph
from holdfast.flow.model import FLOW_LIVE, FlowInfo, Mending, NodeInfo
from holdfast.store.contract.flows import FlowFilter

FLOWS_AT_ONCE = 20
NODES_A_SWEEP = 500
LARGEST_FLOW = 20_000
"""Nodes of a flow beyond which it is not read whole so often: `doctor` reads it."""


class FlowDriftReconciler(Reconciler):
    """Looks at a few live flows at a time, in turn."""

    name = "flow_drift"
    _behind: str | None = None
    _room = 0

    @property
    def interval(self) -> float:
        return self.options.flow_drift

    async def step(self, cursor: str | None) -> tuple[Swept, str | None]:
        if cursor is None:
            cursor, self._room = self._behind, NODES_A_SWEEP
        page = await self.store.flows.page(FlowFilter(states=FLOW_LIVE), FLOWS_AT_ONCE, cursor)
        swept = Swept()
        for flow in page.flows:
            if flow.total <= LARGEST_FLOW:
                swept += await self._look_at(flow)
                self._room -= flow.total
        self._behind = page.next_cursor
        return swept, self._behind if self._room > 0 else None

    async def _look_at(self, flow: FlowInfo) -> Swept:
        before = await self._drift(flow)
        if not before:
            return Swept()
        again = await self.store.flows.get([flow.id])
        if not again or again[0] != flow or await self._drift(flow) != before:
            return Swept()
        self.events.error("flow.adrift", flow=flow.id, flow_name=flow.name, wrong=tuple(before))
        mended = await self.store.flows.mend([await self._mending(flow)])
        return Swept(found=1, mended=len(mended), refused=1 - len(mended))

    async def _drift(self, flow: FlowInfo) -> list[str]:
        graph, nodes = await self._whole(flow)
        return drift_of(flow, graph, nodes)

    async def _mending(self, flow: FlowInfo) -> Mending:
        graph, nodes = await self._whole(flow)
        return mending_of(flow, graph, nodes)

    async def _whole(self, flow: FlowInfo) -> tuple[Graph, list[NodeInfo]]:
        nodes = [node async for some in pages_of(self.store, flow.id) for node in some]
        return Graph(await self.store.flows.graph(flow.id)), nodes
