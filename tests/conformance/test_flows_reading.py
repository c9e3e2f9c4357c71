"""What is read of flows."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from holdfast.flow.ids import new_flow_id
from holdfast.flow.inputs import Each, Input, Result, encode_inputs
from holdfast.flow.model import FlowState, NodeInput
from holdfast.job.ends import Returned
from holdfast.job.outcome import decide
from holdfast.store.contract.flows import FlowFilter
from tests.conformance.builders import FAILED, Scene
from tests.support.flows import Trip, Waits, new_flow


async def test_a_worker_learns_what_a_node_needs(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    plain = await scene.enqueue()
    found = await scene.store.flows.inputs([trip.ids["b"], plain])
    assert found == {trip.ids["b"]: NodeInput(trip.id, "trip", FlowState.RUNNING, "b", None)}
    await trip.close()
    [told] = (await scene.store.flows.inputs([trip.ids["a"]])).values()
    assert told.flow_state is FlowState.CANCELLING


async def test_a_claim_that_brings_what_a_node_needs_says_what_a_worker_would_be_told(
    scene: Scene,
) -> None:
    waits: dict[str, Waits] = {name: ["a", "b"] for name in "cdefg"}
    flow = new_flow({"a": [], "b": [], **waits})
    ids = {node.name: node.job.id for node in flow.nodes}
    takes = {
        "c": [Input(("x",), Result(ids["a"])), Input(("y",), Result(ids["b"]))],
        "d": [Input(("x",), Each((ids["a"], ids["b"])))],
        "f": [Input(("x",), Result(ids["a"]))],
        "g": [Input(("x",), Result(ids["a"]))],
    }
    results = {ids[name]: {ids["a"]: f'"{ids["a"]}"'} for name in "cfg"}
    results[ids["c"]][ids["b"]] = f'"{ids["b"]}"'
    nodes = tuple(
        msgspec.structs.replace(node, inputs=encode_inputs(takes.get(node.name, ())))
        for node in flow.nodes
    )
    await scene.store.flows.start([msgspec.structs.replace(flow, nodes=nodes)])
    ended = [decide(job, Returned(f'"{job.id}"')) for job in await scene.claim(limit=10)]
    await scene.store.jobs.finish(ended)
    claimed = await scene.claim(limit=10)
    told = await scene.store.flows.inputs([job.id for job in claimed])
    assert {job.id for job in claimed} == {ids[name] for name in "cdefg"}
    for job in claimed:
        if job.node is not None:
            assert (job.node.inputs, job.node.closing) == (told[job.id].inputs, False)
            if job.node.results is not None:
                assert job.node.results == results[job.id]


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
