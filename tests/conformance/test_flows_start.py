"""`Flows.start`: a graph is written whole, or not at all."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import psycopg
import pytest

from holdfast.clock import ManualClock
from holdfast.errors import BadOption, NotCapable
from holdfast.flow.ids import new_flow_id
from holdfast.flow.model import FlowState
from holdfast.job.state import JobState
from holdfast.store.contract.records import Capability
from tests.conformance.builders import Scene
from tests.support.backends import Inspectable, SqliteFile, opened
from tests.support.flows import Trip, every, new_flow, quorum
from tests.support.pooled import direct

DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


async def test_a_flow_is_written_whole_and_what_waits_for_nothing_is_ready(scene: Scene) -> None:
    trip = await Trip.begin(scene, DIAMOND, tags=("vip",))
    assert await trip.states() == {"a": "ready", "b": "blocked", "c": "blocked", "d": "blocked"}
    info = await trip.info()
    assert (info.name, info.state, info.total, info.open) == ("trip", FlowState.RUNNING, 4, 4)
    assert (info.tags, info.failed, info.epoch, info.created_at) == (
        ("vip",),
        0,
        1,
        scene.clock.now,
    )
    assert await scene.store.flows.graph(trip.id) == [trip.flow.graph]


async def test_gates_tell_what_they_wait_for(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "c": ["a", quorum(1, "a", "b")]})
    first, second = (await trip.nodes())["c"].gates
    assert (first.need, first.total, first.won, first.lost) == (1, 1, 0, 0)
    assert [edge.upstream for edge in first.edges] == [trip.ids["a"]]
    assert (second.need, second.total) == (1, 2)
    assert {edge.upstream for edge in second.edges} == {trip.ids["a"], trip.ids["b"]}


async def test_a_start_that_is_repeated_changes_nothing(scene: Scene) -> None:
    trip = await Trip.begin(scene, DIAMOND)
    await trip.end("a")
    [again] = await scene.store.flows.start([trip.flow])
    assert (again.id, again.how) == (trip.id, "created")
    assert await trip.states() == {"a": "succeeded", "b": "ready", "c": "ready", "d": "blocked"}


async def test_an_id_that_another_flow_has_is_refused(scene: Scene) -> None:
    trip = await Trip.begin(scene, DIAMOND)
    other = new_flow({"x": []}, id=trip.id, name="other")
    [answer] = await scene.store.flows.start([other])
    assert answer.how == "taken"
    assert (await trip.info()).name == "trip"
    assert await scene.state(other.nodes[0].job.id) is None


async def test_a_unique_key_stands_for_one_live_flow(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": []}, unique_key="order:1")
    twin = new_flow({"a": []}, unique_key="order:1")
    assert [one.how for one in await scene.store.flows.start([twin])] == ["existing"]
    assert await scene.store.flows.start([twin]) == await scene.store.flows.start([twin])
    await trip.end("a")
    assert [one.how for one in await scene.store.flows.start([twin])] == ["created"]
    [of_twin] = await scene.store.flows.get([twin.id])
    assert of_twin.state is FlowState.RUNNING


async def test_several_flows_start_at_once(scene: Scene) -> None:
    flows = [new_flow(DIAMOND, name=f"n{n}") for n in range(20)]
    assert {one.how for one in await scene.store.flows.start(flows)} == {"created"}
    assert await scene.store.flows.count() == {FlowState.RUNNING: 20}
    assert len(await scene.claim(100)) == 20


async def test_more_flows_than_a_store_writes_together_are_answered_in_their_order(
    scene: Scene,
) -> None:
    flows = [new_flow({"a": []}) for _ in range(230)]
    flows[3], flows[220] = (new_flow({"a": []}, unique_key="order:1") for _ in range(2))
    started = await scene.store.flows.start(flows)
    twin = started.pop(220)
    assert (twin.id, twin.how) == (flows[3].id, "existing")
    assert {one.how for one in started} == {"created"}
    assert [one.id for one in started] == [flow.id for flow in flows if flow is not flows[220]]
    assert len(await scene.store.flows.get([flow.id for flow in flows])) == 229


async def test_no_flow_is_asked_for(scene: Scene) -> None:
    assert await scene.store.flows.start([]) == []
    assert await scene.store.flows.get([new_flow_id()]) == []
    assert await scene.store.flows.count() == {}


async def test_a_first_node_may_wait_for_its_time(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]}, node_options={"a": {"delay": 60.0}})
    assert await trip.states() == {"a": "scheduled", "b": "blocked"}


async def test_a_flow_of_many_nodes(scene: Scene) -> None:
    names = [f"n{n:04}" for n in range(2_000)]
    trip = await Trip.begin(scene, {"a": [], **{name: ["a"] for name in names}, "z": every(*names)})
    await trip.end("a")
    await trip.end(*names)
    assert await trip.state("z") is JobState.READY
    assert (await trip.info()).open == 1


def connected(url: str) -> sqlite3.Connection | psycopg.Connection:
    """A connection of the caller's own, whose driver begins a transaction by itself."""
    if url.startswith("sqlite"):
        return sqlite3.connect(SqliteFile.path(url))
    return psycopg.connect(direct(url))


async def test_a_flow_starts_in_the_callers_transaction_or_not_at_all(
    inspectable: Inspectable, clock: ManualClock
) -> None:
    url = await inspectable.empty()
    flow = new_flow({"a": [], "b": ["a"]})
    async with opened(url, clock) as store:
        with closing(connected(url)) as connection:
            assert store.flows.start_within_sync(connection, [flow])[0].how == "created"
            connection.rollback()
            assert await store.flows.get([flow.id]) == []
            assert (await store.flows.start_within(connection, [flow]))[0].how == "created"
            connection.commit()
        assert [one.id for one in await store.flows.get([flow.id])] == [flow.id]


async def test_a_store_that_joins_no_transaction_says_so(scene: Scene) -> None:
    joins = Capability.JOIN_TRANSACTION in scene.store.capabilities
    with pytest.raises(BadOption if joins else NotCapable):
        scene.store.flows.start_within_sync(object(), [new_flow({"a": []})])
