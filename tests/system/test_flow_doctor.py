"""Faults in the counts of flows are found by the doctor and by `flow_drift`, and mended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from holdfast.clock import ManualClock
from holdfast.events import Event
from holdfast.flow.model import FlowState, Grown
from holdfast.flow.undoing import _ranks
from holdfast.flow.whole_flow import WholeFlow
from holdfast.insights.actions import Action, Noun, Verb
from holdfast.insights.causes import chain_of
from holdfast.insights.diagnosis import OK, PROBLEM, Diagnosis
from holdfast.insights.doctor import examine
from holdfast.job.ends import Cancelled
from holdfast.reconcile.flow_drift import FlowDriftReconciler
from holdfast.store.contract.audit import AuditFilter
from tests.conformance.builders import Scene
from tests.conformance.test_flows_extend import grown
from tests.support.backends import Backend, opened
from tests.support.flow_faults import FAULTS, GRAPH, plant
from tests.support.flows import Trip
from tests.support.reconcile_scene import made

CIRCLE = "'c' waits for 'e' waits for 'd' waits for 'c'"


@pytest.fixture
def clock() -> ManualClock:
    """Near the machine's own, so that the doctor sees no skew."""
    return ManualClock(datetime.now(UTC))


@pytest.fixture
async def url(backend: Backend) -> str:
    return await backend.empty()


@pytest.fixture
async def trip(url: str, clock: ManualClock) -> AsyncIterator[Trip]:
    """`c` waits for `a`, which has succeeded, and for `b`, which runs; `d` waits for `c`."""
    async with opened(url, clock) as store:
        trip = await Trip.begin(await Scene.on(store, clock), GRAPH)
        await trip.end("a")
        yield trip


async def examined(trip: Trip, *, deep: bool = False, fix: bool = False) -> list[Diagnosis]:
    store = trip.scene.store.sibling()
    found = await examine(store, deep=deep, fix=fix, by="ann@desk")
    return [each for each in found if each.check == "flows"]


async def test_the_doctor_finds_nothing_where_nothing_was_planted(trip: Trip) -> None:
    [well] = await examined(trip)
    assert (well.severity, well.saw) == (OK, "1 live flow examined counts right")
    [well] = await examined(trip, deep=True)
    assert (well.severity, well.saw) == (OK, "1 flow examined counts right")


@pytest.mark.parametrize("fault", FAULTS)
async def test_the_doctor_finds_a_fault_and_mends_it(
    trip: Trip, backend: Backend, url: str, fault: str
) -> None:
    await plant(fault, backend, url, trip)
    [ill] = await examined(trip, deep=True)
    assert ill.severity is PROBLEM
    assert ill.saw.startswith(f"flow {trip.id} (trip): ")
    assert FAULTS[fault][1] in ill.saw
    assert ill.actions == (Action(Noun.FLOWS, Verb.CORRECT, trip.id),)
    bounded = await examined(trip)
    assert (bounded[0].severity is OK) == (fault == "ended too early"), "it reads live flows only"
    [mended] = await examined(trip, fix=True)
    assert (mended.severity, mended.saw) == (OK, f"{ill.saw}; it is mended")
    [act] = (await trip.scene.store.audit.page(AuditFilter(verb="flows.correct"), 5)).entries
    assert (act.by, act.target, act.outcome, act.changed) == ("ann@desk", trip.id, "done", 1)
    await goes_on(trip)


@pytest.mark.parametrize("fault", FAULTS)
async def test_the_reconciler_finds_a_fault_and_mends_it(
    trip: Trip, backend: Backend, url: str, fault: str
) -> None:
    events: list[Event] = []
    reconciler = made(FlowDriftReconciler, trip.scene.store, events)
    nothing, _ = await reconciler.step(None)
    assert (nothing.found, nothing.mended, events) == (0, 0, [])
    await plant(fault, backend, url, trip)
    swept, _ = await reconciler.step(None)
    assert (swept.found, swept.mended) == (1, 1)
    [event] = events
    assert (event.name, event.fields["flow"]) == ("flow.adrift", trip.id)
    swept, _ = await reconciler.step(None)
    assert swept.found == 0
    await goes_on(trip)


async def test_the_doctor_names_nodes_that_wait_for_each_other(trip: Trip) -> None:
    """No count is wrong, so nothing mends it. No worker makes such a growth: a store takes it."""
    [by] = await trip.scene.store.jobs.live([trip.ids["b"]])
    growth = grown(trip, by, {"e": ["d"]}, c=["e"])
    assert await trip.scene.store.flows.extend([growth]) == [Grown.GROWN]
    for running in (True, False):
        for fix in (False, True):
            [ill] = await examined(trip, fix=fix)
            assert ill.severity is PROBLEM
            assert ill.saw == f"flow {trip.id} (trip): {CIRCLE}, so none of them can ever begin"
            assert ill.actions == (Action(Noun.FLOWS, Verb.CANCEL, trip.id),)
        if running:
            await trip.end("b")
    swept, _ = await made(FlowDriftReconciler, trip.scene.store, []).step(None)
    assert (swept.found, swept.mended) == (0, 0)
    await trip.end("e", end=Cancelled())
    assert await trip.states() == {
        "a": "succeeded",
        "b": "succeeded",
        "c": "skipped",
        "d": "skipped",
        "e": "cancelled",
    }
    [well] = await examined(trip)
    assert well.severity is OK


async def test_a_flow_whose_nodes_waited_for_each_other_is_explained_and_undone(trip: Trip) -> None:
    store = trip.scene.store
    [by] = await store.jobs.live([trip.ids["b"]])
    assert await store.flows.extend([grown(trip, by, {"e": ["d"]}, c=["e"])]) == [Grown.GROWN]
    await trip.end("b", end=Cancelled())
    assert (await trip.info()).state is FlowState.CANCELLED
    whole = await WholeFlow.read(store, await trip.info())
    assert [node.name for node in chain_of(whole, trip.ids["c"])] == ["e", "d", "c"]
    assert _ranks(whole.graph).keys() == set(trip.ids.values())


async def goes_on(trip: Trip) -> None:
    """The flow ends as if nothing had been wrong with it."""
    info = await trip.info()
    assert (info.state, info.open) == (FlowState.RUNNING, 3)
    await trip.end("b")
    await trip.end("c")
    await trip.end("d")
    assert (await trip.info()).state is FlowState.SUCCEEDED
