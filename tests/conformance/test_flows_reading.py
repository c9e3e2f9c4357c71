"""What is read of flows."""

from __future__ import annotations

from datetime import timedelta

from holdfast.flow.model import FlowState, NodeInput, new_flow_id
from holdfast.store.contract.flows import FlowFilter
from tests.conformance.builders import FAILED, Scene
from tests.support.flows import Trip


async def test_a_worker_learns_what_a_node_needs(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    plain = await scene.enqueue()
    found = await scene.store.flows.inputs([trip.ids["b"], plain])
    assert found == {trip.ids["b"]: NodeInput(trip.id, "trip", FlowState.RUNNING, "b", None)}
    await trip.close()
    [told] = (await scene.store.flows.inputs([trip.ids["a"]])).values()
    assert told.flow_state is FlowState.CANCELLING


async def test_flows_come_newest_first_a_page_at_a_time(scene: Scene) -> None:
    trips = []
    for n in range(5):
        trips.append(await Trip.begin(scene, {"a": []}, name=f"n{n}"))
        scene.clock.advance(1)
    newest = [trip.id for trip in reversed(trips)]
    first = await scene.store.flows.page(FlowFilter(), 3)
    assert [flow.id for flow in first.flows] == newest[:3]
    second = await scene.store.flows.page(FlowFilter(), 3, first.next_cursor)
    assert ([flow.id for flow in second.flows], second.next_cursor) == (newest[3:], None)


async def test_a_filter_narrows(scene: Scene) -> None:
    first = await Trip.begin(scene, {"a": []}, name="first", tags=("vip", "eu"))
    scene.clock.advance(60)
    other = await Trip.begin(scene, {"a": []}, name="other", tags=("eu",))
    await other.end("a", end=FAILED)

    async def ids(which: FlowFilter) -> list[str]:
        return [flow.id for flow in (await scene.store.flows.page(which, 10)).flows]

    assert await ids(FlowFilter(names=("first",))) == [first.id]
    assert await ids(FlowFilter(states=frozenset({FlowState.FAILED}))) == [other.id]
    assert await ids(FlowFilter(tags=("eu",))) == [other.id, first.id]
    assert await ids(FlowFilter(tags=("eu", "vip"))) == [first.id]
    assert await ids(FlowFilter(ids=(first.id,))) == [first.id]
    minute = scene.clock.now - timedelta(seconds=30)
    assert await ids(FlowFilter(created_after=minute)) == [other.id]
    assert await ids(FlowFilter(created_before=minute)) == [first.id]
    assert await scene.store.flows.count() == {FlowState.RUNNING: 1, FlowState.FAILED: 1}


async def test_nodes_come_by_name_a_page_at_a_time(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"b": [], "a": [], "c": ["a"]})
    nodes = await scene.store.flows.nodes(trip.id, 2)
    assert [node.name for node in nodes] == ["a", "b"]
    [last] = await scene.store.flows.nodes(trip.id, 2, "b")
    assert (last.name, last.state, last.task, last.queue) == ("c", "blocked", "greet", "default")
    assert (last.is_sink, nodes[0].is_sink) == (True, False)


async def test_what_is_not_there_is_empty(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": []})
    assert await scene.store.flows.graph(trip.id) == [trip.flow.graph]
    assert await scene.store.flows.inputs([]) == {}
    assert await scene.store.flows.prune(10) == 0


async def test_flows_are_read_in_the_order_asked(scene: Scene) -> None:
    first, second = await Trip.begin(scene, {"a": []}), await Trip.begin(scene, {"a": []})
    found = await scene.store.flows.get([second.id, new_flow_id(), first.id])
    assert [flow.id for flow in found] == [second.id, first.id]
