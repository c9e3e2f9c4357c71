"""The net below the counts of flows: it finds nothing, unless somebody plants it. Then it says so,
mends it, and the flow goes on as if nothing had been."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import cast
from unittest.mock import AsyncMock

import pytest

from holdfast.background.counters import Swept
from holdfast.background.options import ReconcileOptions
from holdfast.clock import ManualClock
from holdfast.events import Event, Events
from holdfast.flow.model import FlowState
from holdfast.flow.whole_flow import WholeFlow, find_drift
from holdfast.reconcile.flow_drift import FlowDriftReconciler
from tests.conformance.builders import FAILED, Scene
from tests.support.backends import Backend, opened
from tests.support.flow_faults import GRAPH, Planter, planter
from tests.support.flows import Trip


@dataclass
class Net:
    """A flow, who damages it, and the reconciler that looks at it."""

    trip: Trip
    planter: Planter
    said: list[str] = field(default_factory=list)

    async def sweep(self) -> Swept:
        events = Events()
        events.subscribe(self._hear)
        return await FlowDriftReconciler(
            self.trip.scene.store, events, ReconcileOptions()
        ).run_once()

    def _hear(self, event: Event) -> None:
        if event.name == "flow.adrift":
            assert event.fields["flow"] == self.trip.id
            self.said += cast("tuple[str, ...]", event.fields["wrong"])

    async def mends(self, *wrong: str) -> None:
        """It finds this, once."""
        swept = await self.sweep()
        assert (swept.found, swept.mended) == (1, 1)
        assert self.said == list(wrong)
        assert (await self.sweep()).found == 0


@pytest.fixture
async def net(backend: Backend, clock: ManualClock) -> AsyncIterator[Net]:
    url = await backend.empty()
    async with opened(url, clock) as store:
        trip = await Trip.begin(await Scene.on(store, clock), GRAPH)
        yield Net(trip, planter(backend, url, store))


async def test_the_net_finds_nothing_in_a_flow_that_runs(net: Net) -> None:
    for name in ("a", "b", "c", "d"):
        assert await net.sweep() == Swept()
        await net.trip.end(name)
    assert await net.sweep() == Swept()
    assert net.said == []


async def test_a_flow_that_moved_is_read_once(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large flow that runs moves while it is read, and differs from what was known of it."""
    store, known = net.trip.scene.store, await net.trip.info()
    await net.trip.end("a")
    reads = AsyncMock(wraps=store.flows.nodes)
    monkeypatch.setattr(store.flows, "nodes", reads)
    assert await find_drift(store, known) is None
    of_one_reading = reads.await_count
    await WholeFlow.read(store, known)
    assert reads.await_count == 2 * of_one_reading


async def test_a_wrong_count_of_a_gate_is_found_and_mended(net: Net) -> None:
    await net.planter.miscount_gate(net.trip.ids["c"], 1)
    await net.mends("node 'c' has other gates than its graph says")
    await net.trip.end("a")
    assert (await net.trip.states())["c"] == "blocked", "one win is one win"
    await net.trip.end("b")
    assert (await net.trip.states())["c"] == "ready"


async def test_an_edge_to_a_node_that_has_ended_is_found_and_mended(net: Net) -> None:
    await net.trip.end("a")
    await net.planter.leave_edge(net.trip.id, net.trip.ids["a"], net.trip.ids["c"])
    await net.mends("node 'c' has an edge to a node that has ended")
    await net.trip.end("b")
    assert (await net.trip.states())["c"] == "ready"


async def test_a_join_that_was_lost_is_found_and_released(net: Net) -> None:
    await net.planter.lose_edge(net.trip.ids["b"], net.trip.ids["c"])
    await net.trip.end("a", "b")
    assert (await net.trip.states())["c"] == "blocked"
    wrong = ["has other gates than its graph says", "is still blocked"]
    await net.mends(*(f"node 'c' {one}" for one in wrong))
    assert (await net.trip.states())["c"] == "ready"
    await net.trip.end("c")
    await net.trip.end("d")
    assert (await net.trip.info()).state is FlowState.SUCCEEDED


async def test_a_skip_that_was_lost_is_found_and_goes_on_to_the_end(net: Net) -> None:
    """The count of live nodes is too low as well: the cascade must not end the flow too early."""
    trip = net.trip
    await net.planter.lose_edge(trip.ids["b"], trip.ids["c"])
    await trip.end("b", end=FAILED)
    await net.planter.miscount_flow(trip.id, 2)
    swept = await net.sweep()
    assert (swept.found, swept.mended) == (1, 1)
    assert net.said[0] == "3 nodes are live, and 2 are counted"
    expected = {"a": "running", "b": "failed", "c": "skipped", "d": "skipped"}
    assert await trip.states() == expected
    info = await trip.info()
    assert (info.state, info.open, info.failed) == (FlowState.RUNNING, 1, 1)
    await trip.end("a")
    assert (await trip.info()).state is FlowState.FAILED


async def test_a_flow_that_never_ended_is_found_and_ended(net: Net) -> None:
    await net.planter.miscount_flow(net.trip.id, 5)
    for name in ("a", "b", "c", "d"):
        await net.trip.end(name)
    assert (await net.trip.info()).state is FlowState.RUNNING
    swept = await net.sweep()
    assert (swept.found, swept.mended) == (1, 1)
    info = await net.trip.info()
    assert (info.state, info.open) == (FlowState.SUCCEEDED, 0)
    assert info.expires_at is not None, "it is kept as it was told"
