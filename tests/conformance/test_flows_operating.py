"""Pause, resume, cancel, and what a write owes."""

from __future__ import annotations

import pytest

from holdfast.flow.ids import new_flow_id
from holdfast.flow.model import CloseWhat, ErrandKind, FlowState
from holdfast.job.ends import Cancelled
from holdfast.job.outcome import decide
from holdfast.job.state import JobState
from holdfast.store.contract.wakeups import Topic, Wakeup
from tests.conformance.builders import FAILED, Scene
from tests.support.flows import Trip, any_of
from tests.support.waiting import wait_until


async def test_nothing_of_a_paused_flow_is_released(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"], "c": ["b"]})
    assert await scene.store.flows.pause([trip.id, new_flow_id()]) == [trip.id]
    assert await scene.store.flows.pause([trip.id]) == []
    await trip.end("a")
    assert (await trip.info()).state is FlowState.PAUSED
    assert await trip.states() == {"a": "succeeded", "b": "blocked", "c": "blocked"}
    assert await scene.store.flows.resume([trip.id]) == [trip.id]
    assert await scene.store.flows.resume([trip.id]) == []
    assert await trip.states() == {"a": "succeeded", "b": "ready", "c": "blocked"}


async def test_nothing_of_a_paused_flow_is_skipped_until_it_goes_on(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"], "c": ["b"]})
    await scene.store.flows.pause([trip.id])
    await trip.end("a", end=FAILED)
    assert await trip.states() == {"a": "failed", "b": "blocked", "c": "blocked"}
    await scene.store.flows.resume([trip.id])
    assert await trip.states() == {"a": "failed", "b": "skipped", "c": "skipped"}
    info = await trip.info()
    assert (info.state, info.open, info.failed) == (FlowState.FAILED, 0, 1)


async def test_a_paused_flow_whose_nodes_all_end_is_over(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": []})
    await scene.store.flows.pause([trip.id])
    await trip.end("a")
    assert (await trip.info()).state is FlowState.SUCCEEDED


@pytest.mark.parametrize("what", [CloseWhat.ALL, CloseWhat.WAITING])
async def test_nothing_is_released_after_a_cancel(scene: Scene, what: CloseWhat) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    await trip.claim()
    assert await trip.close(what) == [trip.id]
    await trip.end("a")
    assert (await trip.info()).state is FlowState.CANCELLING
    assert await trip.states() == {"a": "succeeded", "b": "blocked"}
    [errand] = await scene.store.flows.errands(10)
    assert (errand.flow, errand.kind, errand.what) == (trip.id, ErrandKind.CLOSE, what)
    await scene.store.jobs.finish([decide(await scene.live(trip.ids["b"]), Cancelled())])
    assert (await trip.info()).state is FlowState.CANCELLED


async def test_a_cancel_of_what_is_blocked_lets_the_flow_go_on(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    assert await trip.close(CloseWhat.BLOCKED) == [trip.id]
    assert (await trip.info()).state is FlowState.RUNNING
    assert [one.what for one in await scene.store.flows.errands(10)] == [CloseWhat.BLOCKED]


async def test_an_ended_flow_is_not_closed(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": []})
    await trip.end("a")
    assert await trip.close() == []
    assert await scene.store.flows.errands(10) == []


async def test_a_second_close_is_owed_too(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    await trip.close(CloseWhat.WAITING)
    assert await trip.close(CloseWhat.ALL) == [trip.id]
    first, second = await scene.store.flows.errands(10)
    assert (first.what, second.what) == (CloseWhat.WAITING, CloseWhat.ALL)
    assert await scene.store.flows.errands(10, first.id) == [second]
    assert await scene.store.flows.errands(1) == [first]
    await scene.store.flows.done([first.id])
    assert await scene.store.flows.errands(10) == [second]
    await scene.store.flows.done([first.id, second.id])
    assert await scene.store.flows.errands(10) == []


async def test_a_gate_that_is_met_owes_the_cancel_of_its_losers(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "c": any_of("a", "b", cancel=True)})
    await trip.end("a")
    [errand] = await scene.store.flows.errands(10)
    assert (errand.kind, errand.flow, errand.job) == (
        ErrandKind.LOSERS,
        trip.id,
        trip.ids["c"],
    )
    assert errand.at == scene.clock.now
    assert await trip.state("b") is JobState.RUNNING, "cancelling is not the store's to do"


async def test_who_lets_the_losers_run_owes_nothing(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "c": any_of("a", "b")})
    await trip.end("a")
    assert await scene.store.flows.errands(10) == []


async def test_an_errand_wakes(scene: Scene) -> None:
    heard: list[Wakeup] = []
    trip = await Trip.begin(scene, {"a": []})
    stop = await scene.store.wakeups.subscribe(heard.append)
    try:
        await trip.close()
        await wait_until(
            lambda: any(one.topic is Topic.ERRANDS for one in heard), 5, "the errand is heard"
        )
    finally:
        stop()


async def test_errands_go_with_their_flow(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "c": any_of("a", "b", cancel=True)})
    await trip.end("a", "b")
    await trip.end("c")
    scene.clock.advance(101)
    assert await scene.store.flows.prune(1) == 1
    assert await scene.store.flows.errands(10) == []
