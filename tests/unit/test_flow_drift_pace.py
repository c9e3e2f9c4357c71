"""The net below flows looks at some of them in each sweep, and at all of them in turn."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

from holdfast.background.options import ReconcileOptions
from holdfast.events import Events
from holdfast.flow.model import FLOW_LIVE, FlowId, FlowInfo, FlowState
from holdfast.reconcile.flow_drift import FLOWS_AT_ONCE, NODES_A_SWEEP, FlowDriftReconciler
from holdfast.store.contract.flows import FlowFilter, FlowPage
from holdfast.store.contract.store import Store

NODES = 10
LIVE = 130


class Flows:
    """Flows of ten nodes each, all of which are as they should be."""

    def __init__(self) -> None:
        self.looked_at: list[str] = []

    async def page(self, which: FlowFilter, limit: int, cursor: str | None = None) -> FlowPage:
        if not which.states & FLOW_LIVE:
            return FlowPage((), None)
        first = 0 if cursor is None else int(cursor)
        some = tuple(map(_flow, range(first, min(LIVE, first + limit))))
        return FlowPage(some, str(first + limit) if first + limit < LIVE else None)

    async def nodes(self, flow: FlowId, limit: int, after: str | None = None) -> list[object]:
        self.looked_at.append(flow)
        return []

    async def graph(self, flow: FlowId) -> list[str]:
        return []


def _flow(number: int) -> FlowInfo:
    return FlowInfo(
        id=FlowId(str(number)),
        name="n",
        state=FlowState.SUCCEEDED,
        total=NODES,
        open=0,
        failed=0,
        epoch=1,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


async def test_a_sweep_is_bounded_and_the_next_one_goes_on_behind_it() -> None:
    flows = Flows()
    store = cast("Store", SimpleNamespace(flows=flows))
    drift = FlowDriftReconciler(store, Events(), ReconcileOptions())
    sizes: list[int] = []
    for _ in range(4):
        before = len(flows.looked_at)
        await drift.run_once()
        sizes.append(len(flows.looked_at) - before)
    a_sweep = -(-NODES_A_SWEEP // (NODES * FLOWS_AT_ONCE)) * FLOWS_AT_ONCE
    assert sizes == [a_sweep, a_sweep, LIVE - 2 * a_sweep, a_sweep]
    assert flows.looked_at[:LIVE] == [str(number) for number in range(LIVE)]
    assert flows.looked_at[LIVE] == "0"
