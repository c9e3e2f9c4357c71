"""Compares the counts of live flows with what their graphs say, and mends what differs.

It is a net that must find nothing: each count is changed in the transaction that ends a node.

A sweep looks at some hundred nodes, and the next one goes on behind it. Where very many flows are
live, reading all of them every few seconds would cost more than running them.
"""

from __future__ import annotations

from holdfast.background.counters import Swept
from holdfast.background.reconciler import Reconciler
from holdfast.flow.model import FLOW_ENDED, FLOW_LIVE, FlowInfo
from holdfast.flow.whole_flow import find_drift
from holdfast.store.contract.flows import FlowFilter

FLOWS_AT_ONCE = 20
NODES_A_SWEEP = 500
LARGEST_FLOW = 20_000
"""Nodes of a flow beyond which it is not read whole so often: `holdfast doctor --deep` reads it."""


class FlowDriftReconciler(Reconciler):
    """Looks at a few live flows at a time, in turn, and after the last of them at the newest that
    have ended: one with a live node would be forgotten by everybody else."""

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
        flows = list(page.flows)
        if page.next_cursor is None:
            ended = await self.store.flows.page(FlowFilter(states=FLOW_ENDED), FLOWS_AT_ONCE)
            flows += ended.flows
        swept = Swept()
        for flow in flows:
            if flow.total <= LARGEST_FLOW:
                swept += await self._look_at(flow)
                self._room -= flow.total
        self._behind = page.next_cursor
        return swept, self._behind if self._room > 0 else None

    async def _look_at(self, flow: FlowInfo) -> Swept:
        drift = await find_drift(self.store, flow)
        if drift is None or not drift.wrong:
            return Swept()
        wrong = tuple(drift.wrong)
        self.events.error("flow.adrift", flow=flow.id, flow_name=flow.name, wrong=wrong)
        mended = await self.store.flows.mend([drift.mending])
        return Swept(found=1, mended=len(mended), refused=1 - len(mended))
