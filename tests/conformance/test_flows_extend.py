"""`Flows.extend`: a running node adds to its flow."""

from __future__ import annotations

import msgspec

from holdfast.flow.drift import drift_of
from holdfast.flow.graph import Graph, encode_graph
from holdfast.flow.inputs import Input, Result, decode_inputs, encode_inputs
from holdfast.flow.model import FlowState, Grown, Growth, NewGate
from holdfast.job.ends import Snoozed
from holdfast.job.record import Claimed, Live
from holdfast.job.state import JobState
from tests.conformance.builders import FAILED, Scene
from tests.support.flows import Trip, Waits, any_of, every, gates_of, new_flow


def grown(trip: Trip, by: Claimed | Live, graph: dict[str, Waits], **more: Waits) -> Growth:
    """New nodes, and further gates of nodes that are there."""
    added = new_flow({**{name: [] for name in trip.ids}, **graph}, id=trip.id)
    ids = {**{node.name: node.job.id for node in added.nodes}, **trip.ids}
    nodes = tuple(
        msgspec.structs.replace(node, gates=gates_of(graph[node.name], ids))
        for node in added.nodes
        if node.name in graph
    )
    gates: dict[str, tuple[NewGate, ...]] = {
        name: gates_of(waits, ids) for name, waits in more.items()
    }
    trip.ids |= {node.name: node.job.id for node in nodes}
    further = {trip.ids[name]: some for name, some in gates.items()}
    return Growth(
        flow=trip.id,
        by=by.id,
        fence=by.fence,
        nodes=nodes,
        gates=further,
        graph=encode_graph(nodes, further),
    )


async def found_by_drift(scene: Scene, trip: Trip) -> list[str]:
    """What the net below all counts finds wrong."""
    _, *grown = await scene.store.flows.graph(trip.id)
    graph = Graph([encode_graph(trip.flow.nodes), *grown])
    return drift_of(await trip.info(), graph, [*(await trip.nodes()).values()])


async def test_a_running_node_adds_nodes_and_others_wait_for_them(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "z": ["a"]})
    claimed = await scene.claim_one()
    growth = grown(trip, claimed, {"b": [], "c": ["b"]}, z=["c"])
    assert await scene.store.flows.extend([growth]) == [Grown.GROWN]
    assert await trip.states() == {"a": "running", "b": "ready", "c": "blocked", "z": "blocked"}
    info = await trip.info()
    assert (info.total, info.open, info.epoch) == (4, 4, 2)
    assert await scene.store.flows.graph(trip.id) == [trip.flow.graph, growth.graph]
    await trip.end("a", "b")
    assert await trip.state("z") is JobState.BLOCKED
    await trip.end("c")
    assert await trip.state("z") is JobState.READY


async def test_a_growth_that_is_repeated_changes_nothing(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "z": ["a"]})
    growth = grown(trip, await scene.claim_one(), {"b": []}, z=["b"])
    assert await scene.store.flows.extend([growth, growth]) == [Grown.GROWN, Grown.GROWN]
    assert (await trip.info()).total == 3
    assert [gate.total for gate in (await trip.nodes())["z"].gates] == [1, 1]


async def test_a_growth_adds_what_is_new_and_keeps_what_is_there(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "z": ["a"]})
    claimed = await scene.claim_one()
    assert await scene.store.flows.extend([grown(trip, claimed, {"b": []})]) == [Grown.GROWN]
    first = trip.ids["b"]
    again = grown(trip, claimed, {"b": [], "c": []}, z=["c"])
    assert await scene.store.flows.extend([again]) == [Grown.GROWN]
    nodes = await trip.nodes()
    assert sorted(nodes) == ["a", "b", "c", "z"]
    assert (nodes["b"].job_id, (await trip.info()).open) == (first, 4)


async def test_an_edge_of_a_gate_that_was_met_does_not_count_at_a_later_gate(
    scene: Scene,
) -> None:
    graph: dict[str, Waits] = {"a": [], "b": [], "c": [], "z": [every("a"), any_of("b", "c")]}
    trip = await Trip.begin(scene, graph)
    await trip.end("b")
    [by] = await scene.store.jobs.live([trip.ids["a"]])
    growth = grown(trip, by, {"new": []}, z=["new"])
    assert await scene.store.flows.extend([growth]) == [Grown.GROWN]
    await trip.end("c", "a")
    assert await trip.state("z") is JobState.BLOCKED
    assert await found_by_drift(scene, trip) == []
    await trip.end("new")
    assert await trip.state("z") is JobState.READY


async def test_gates_that_are_sent_twice_are_added_once(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "y": ["a"], "z": ["a"]})
    growth = grown(trip, await scene.claim_one(), {}, z=["b"])
    assert await scene.store.flows.extend([growth, growth]) == [Grown.GROWN, Grown.GROWN]
    assert len((await trip.nodes())["z"].gates) == 2
    other = msgspec.structs.replace(
        growth, gates={trip.ids["y"]: gates_of(["b"], trip.ids)}, graph='{"nodes":[]}'
    )
    assert await scene.store.flows.extend([other]) == [Grown.GROWN]
    assert len((await trip.nodes())["y"].gates) == 2


async def test_a_new_node_waits_for_the_kept_node_that_has_the_name(scene: Scene) -> None:
    """The growth names the ids that it would have made. Nobody has these ids: an edge to one would
    never be decided."""
    trip = await Trip.begin(scene, {"a": [], "z": ["a"]})
    claimed = await scene.claim_one()
    assert await scene.store.flows.extend([grown(trip, claimed, {"b": []})]) == [Grown.GROWN]
    kept = trip.ids.pop("b")
    growth = grown(trip, claimed, {"b": [], "c": ["b"], "d": []}, z=["b", "c"])
    other = trip.ids["b"]
    reader = msgspec.structs.replace(
        growth.nodes[1], inputs=encode_inputs([Input(("x",), Result(other))])
    )
    nodes = (growth.nodes[0], reader, growth.nodes[2])
    growth = msgspec.structs.replace(growth, nodes=nodes)
    assert await scene.store.flows.extend([growth]) == [Grown.CHANGED], "what does 'b' wait for?"
    growth = msgspec.structs.replace(growth, epoch=(await trip.info()).epoch)
    assert await scene.store.flows.extend([growth]) == [Grown.GROWN]
    trip.ids["b"] = kept
    told = await scene.store.flows.inputs([trip.ids["c"]])
    assert decode_inputs(told[trip.ids["c"]].inputs) == (Input(("x",), Result(kept)),)
    assert await found_by_drift(scene, trip) == []
    await trip.end("a", "b")
    assert await trip.state("c") is JobState.READY
    await trip.end("c")
    assert await trip.state("z") is JobState.READY
    assert await found_by_drift(scene, trip) == []


async def test_a_gate_that_came_with_a_kept_node_is_not_added_again(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "z": ["a"]})
    claimed = await scene.claim_one()
    first = grown(trip, claimed, {"b": []}, z=["b"])
    assert await scene.store.flows.extend([first]) == [Grown.GROWN]
    growth = grown(trip, claimed, {"b": [], "c": []}, z=["c"])
    both = {trip.ids["z"]: (*gates_of(["b"], trip.ids), *growth.gates[trip.ids["z"]])}
    growth = msgspec.structs.replace(growth, gates=both, graph=encode_graph(growth.nodes, both))
    assert await scene.store.flows.extend([growth]) == [Grown.GROWN]
    assert len((await trip.nodes())["z"].gates) == 3
    assert await found_by_drift(scene, trip) == []


async def test_an_upstream_that_has_ended_counts_at_once(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "x": [], "y": []})
    await trip.claim()
    claimed = await scene.store.jobs.live([trip.ids["a"]])
    await trip.end("x")
    await trip.end("y", end=FAILED)
    held = grown(trip, claimed[0], {"b": ["x"], "c": ["y"], "d": ["x", "a"]})
    assert await scene.store.flows.extend([held]) == [Grown.GROWN]
    assert await trip.states() == {
        "a": "running",
        "b": "ready",
        "c": "skipped",
        "d": "blocked",
        "x": "succeeded",
        "y": "failed",
    }


async def test_what_is_skipped_at_once_skips_those_behind_it(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "x": [], "z": ["a"]})
    await trip.claim()
    [held] = await scene.store.jobs.live([trip.ids["a"]])
    await trip.end("x", end=FAILED)
    growth = grown(trip, held, {"b": ["x"], "c": ["b"], "d": ["c"]}, z=["d"])
    assert await scene.store.flows.extend([growth]) == [Grown.GROWN]
    assert set((await trip.states()).values()) == {"running", "failed", "skipped"}
    assert (await trip.info()).open == 1


async def test_a_zombie_adds_nothing(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "z": ["a"]})
    claimed = await scene.claim_one()
    await scene.finish(claimed, Snoozed(0.0))
    growth = grown(trip, claimed, {"b": []})
    assert await scene.store.flows.extend([growth]) == [Grown.NOT_HELD]
    assert (await trip.info()).total == 2


async def test_nothing_is_added_to_a_flow_that_is_being_cancelled(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "z": ["a"]})
    claimed = await scene.claim_one()
    await trip.close()
    growth = grown(trip, claimed, {"b": []})
    assert await scene.store.flows.extend([growth]) == [Grown.OVER]


async def test_a_node_that_is_no_longer_blocked_gets_no_gate(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": []})
    claimed = await scene.claim_one()
    growth = grown(trip, claimed, {"c": []}, b=["c"])
    assert await scene.store.flows.extend([growth]) == [Grown.TARGET_GONE]
    assert sorted(await trip.states()) == ["a", "b"]


async def test_a_flow_grows_by_many_nodes_and_their_join_comes_last(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "z": ["a"]})
    claimed = await scene.claim_one()
    names = [f"n{n:04}" for n in range(1_200)]
    for first in range(0, 1_200, 500):
        some: dict[str, Waits] = {name: [] for name in names[first : first + 500]}
        assert await scene.store.flows.extend([grown(trip, claimed, some)]) == [Grown.GROWN]
    await trip.end(*names[:100])
    assert await scene.store.flows.extend([grown(trip, claimed, {}, z=names)]) == [Grown.GROWN]
    await trip.end("a")
    [gate] = (await trip.nodes())["z"].gates
    assert (gate.total, gate.won) == (1_200, 100)
    await trip.end(*names[100:])
    assert await trip.state("z") is JobState.READY
    await trip.end("z")
    assert (await trip.info()).state is FlowState.SUCCEEDED


async def test_a_growth_of_an_epoch_that_is_over_is_refused_whole(scene: Scene) -> None:
    """Each of the two closes no cycle with the graph that it was checked against."""
    trip = await Trip.begin(scene, {"a": [], "y": ["a"], "z": ["a"]})
    claimed, epoch = await scene.claim_one(), (await trip.info()).epoch
    one, two = (
        msgspec.structs.replace(growth, epoch=epoch)
        for growth in (
            grown(trip, claimed, {"yz": ["y"]}, z=["yz"]),
            grown(trip, claimed, {"zy": ["z"]}, y=["zy"]),
        )
    )
    assert await scene.store.flows.extend([one, two]) == [Grown.GROWN, Grown.CHANGED]
    assert await scene.store.flows.extend([one]) == [Grown.GROWN], "it is there"
    assert (await trip.info()).epoch == epoch + 1
    assert sorted(await trip.nodes()) == ["a", "y", "yz", "z"]
    assert len(await scene.store.flows.graph(trip.id)) == 2
    await trip.end("a")
    await trip.end("y")
    assert await trip.state("yz") is JobState.READY
