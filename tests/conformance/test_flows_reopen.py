"""`Flows.reopen` and `Flows.mend`: nodes run again, and counts are made right."""

from __future__ import annotations

import msgspec

from holdfast.flow.drift import drift_of
from holdfast.flow.graph import Graph, encode_graph
from holdfast.flow.ids import new_node_id
from holdfast.flow.model import FlowState, Grown, Growth, Mending, NewNode, Reopening
from holdfast.flow.reopening import plan_retry
from holdfast.job.state import JobState
from holdfast.job.step import StepRecord
from holdfast.job.ties import Tie
from tests.conformance.builders import FAILED, RETURNED, Scene, new_job
from tests.support.flows import Trip, any_of, gates_of, new_flow


async def test_failed_nodes_run_again_and_what_was_skipped_waits_for_them(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "c": ["a", "b"], "d": ["c"]})
    await trip.end("a")
    await trip.end("b", end=FAILED)
    info = await trip.info()
    assert (info.state, info.failed) == (FlowState.FAILED, 1)
    ids = trip.ids
    plan = Reopening(
        flow=trip.id,
        epoch=info.epoch,
        ready=(ids["b"],),
        blocked={ids["c"]: gates_of(["a", "b"], ids), ids["d"]: gates_of(["c"], ids)},
    )
    assert await scene.store.flows.reopen([plan]) == [trip.id]
    assert await trip.states() == {"a": "succeeded", "b": "ready", "c": "blocked", "d": "blocked"}
    info = await trip.info()
    assert (info.state, info.open, info.failed, info.finished_at, info.expires_at) == (
        *(FlowState.RUNNING, 3, 0),
        *(None, None),
    )
    [gate] = (await trip.nodes())["c"].gates
    assert (gate.won, gate.total) == (1, 2)
    assert (await scene.job(ids["b"])).attempts == 0
    await trip.end("b")
    await trip.end("c")
    await trip.end("d")
    assert (await trip.info()).state is FlowState.SUCCEEDED
    assert await scene.store.telemetry.recount() == []


async def test_a_node_whose_gate_is_met_already_is_released_at_once(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    await trip.end("a")
    await trip.end("b", end=FAILED)
    plan = Reopening(
        flow=trip.id,
        epoch=(await trip.info()).epoch,
        ready=(),
        blocked={trip.ids["b"]: gates_of(["a"], trip.ids)},
    )
    assert await scene.store.flows.reopen([plan]) == [trip.id]
    assert await trip.state("b") is JobState.READY


async def test_a_plan_that_was_made_before_the_graph_changed_is_refused(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    await trip.end("a", end=FAILED)
    plan = Reopening(flow=trip.id, epoch=(await trip.info()).epoch, ready=(trip.ids["a"],))
    assert await scene.store.flows.reopen([plan]) == [trip.id]
    assert await scene.store.flows.reopen([plan]) == []


async def test_a_node_that_has_not_ended_is_not_reopened(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": []})
    await trip.end("a", end=FAILED)
    both = Reopening(
        flow=trip.id, epoch=(await trip.info()).epoch, ready=(trip.ids["a"], trip.ids["b"])
    )
    assert await scene.store.flows.reopen([both]) == []
    assert await trip.states() == {"a": "failed", "b": "running"}


async def test_a_flow_that_is_being_cancelled_is_not_reopened(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": []})
    await trip.end("a", end=FAILED)
    await trip.close()
    plan = Reopening(flow=trip.id, epoch=(await trip.info()).epoch, ready=(trip.ids["a"],))
    assert await scene.store.flows.reopen([plan]) == []


async def test_a_flow_whose_key_another_flow_has_by_now_is_not_reopened(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": []}, unique_key="order:1")
    await trip.end("a", end=FAILED)
    other = await Trip.begin(scene, {"a": []}, unique_key="order:1")
    plan = Reopening(flow=trip.id, epoch=1, ready=(trip.ids["a"],))
    assert await scene.store.flows.reopen([plan]) == []
    await other.end("a")
    assert await scene.store.flows.reopen([plan]) == [trip.id]
    again = new_flow({"a": []}, unique_key="order:1")
    assert [one.id for one in await scene.store.flows.start([again])] == [trip.id]


async def test_who_waits_still_for_a_reopened_node_counts_its_end_no_more(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "c": any_of("a", "b")})
    await trip.end("a", end=FAILED)
    info = await trip.info()
    plan = Reopening(
        flow=trip.id,
        epoch=info.epoch,
        ready=(trip.ids["a"],),
        counted_anew={trip.ids["c"]: gates_of(any_of("a", "b"), trip.ids)},
    )
    assert await scene.store.flows.reopen([plan]) == [trip.id]
    [gate] = (await trip.nodes())["c"].gates
    assert (gate.won, gate.lost, len(gate.edges)) == (0, 0, 2)
    await trip.end("b", end=FAILED)
    assert await trip.state("c") is JobState.BLOCKED
    await trip.end("a")
    assert await trip.state("c") is JobState.READY


async def test_a_node_that_is_not_blocked_any_more_is_not_counted_anew(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "c": any_of("a", "b")})
    await trip.end("a", end=FAILED)
    plan = Reopening(
        flow=trip.id,
        epoch=1,
        ready=(trip.ids["a"],),
        counted_anew={trip.ids["c"]: gates_of(any_of("a", "b"), trip.ids)},
    )
    await trip.end("b")
    assert await scene.store.flows.reopen([plan]) == []


async def test_a_node_that_runs_again_has_no_deadline_any_more(scene: Scene) -> None:
    dated = {"a": {"deadline_in": 60.0}}
    trip = await Trip.begin(scene, {"a": []}, node_options=dated)
    await trip.end("a", end=FAILED)
    plan = Reopening(flow=trip.id, epoch=(await trip.info()).epoch, ready=(trip.ids["a"],))
    assert await scene.store.flows.reopen([plan]) == [trip.id]
    scene.clock.advance(61)
    assert await scene.store.jobs.past_deadline(10) == []
    assert (await scene.claim_one()).deadline_at is None


async def test_a_running_flow_gets_a_failed_node_back(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": []})
    await trip.end("a", end=FAILED)
    plan = Reopening(flow=trip.id, epoch=(await trip.info()).epoch, ready=(trip.ids["a"],))
    assert await scene.store.flows.reopen([plan]) == [trip.id]
    await trip.end("a", "b")
    assert (await trip.info()).state is FlowState.SUCCEEDED


async def test_mending_changes_nothing_where_nothing_is_wrong(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "c": ["a", "b"], "d": any_of("a", "c")})
    await trip.end("a")
    before = (await trip.info(), await trip.nodes())
    plan = Mending(
        flow=trip.id,
        epoch=before[0].epoch,
        gates={trip.ids["c"]: gates_of(["a", "b"], trip.ids)},
    )
    assert await scene.store.flows.mend([plan]) == [trip.id]
    assert (await trip.info(), await trip.nodes()) == before


async def test_mending_gives_a_node_the_gates_that_it_should_have(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "c": ["a", "b"], "d": ["c"]})
    await trip.end("a")
    only_a = Mending(
        flow=trip.id, epoch=1, gates={trip.ids["c"]: gates_of(["a"], trip.ids), trip.ids["d"]: ()}
    )
    assert await scene.store.flows.mend([only_a]) == [trip.id]
    assert await trip.states() == {"a": "succeeded", "b": "running", "c": "ready", "d": "ready"}
    assert await scene.store.flows.mend([Mending(flow=trip.id, epoch=7)]) == []


async def test_settling_changes_nothing_where_every_edge_is_decided(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    await trip.end("a")
    before = await trip.info()
    await scene.store.flows.settle([trip.id])
    assert await trip.info() == before


async def test_a_node_that_runs_again_begins_without_steps(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    for name, end in (("a", RETURNED), ("b", FAILED)):
        claimed = await scene.claim_one()
        await scene.store.steps.record([StepRecord(claimed.id, claimed.fence, "pay", 1)])
        assert (await scene.finish(claimed, end)).accepted, name
    info = await trip.info()
    assert info.state is FlowState.FAILED
    plan = Reopening(flow=trip.id, epoch=info.epoch, ready=(trip.ids["b"],))
    assert await scene.store.flows.reopen([plan]) == [trip.id]
    assert set(await scene.store.steps.load(list(trip.ids.values()))) == {trip.ids["a"]}
    again = await scene.claim_one()
    assert (again.id, again.ties) == (trip.ids["b"], Tie.NODE)
    await scene.finish(again)
    scene.clock.advance(400 * 86_400)
    assert await scene.store.flows.prune(10) == 1
    assert await scene.store.steps.load(list(trip.ids.values())) == {}


async def grown_by_a(trip: Trip, *names: str) -> None:
    """The running node `a` adds these nodes, each a sink, before `c`."""
    [by] = await trip.scene.store.jobs.live([trip.ids["a"]])
    trip.ids |= {name: new_node_id(trip.id) for name in names}
    nodes = tuple(
        NewNode(name, new_job(id=trip.ids[name], ties=int(Tie.NODE)), is_sink=True)
        for name in names
    )
    gates = {trip.ids["c"]: gates_of(list(names), trip.ids)}
    graph = encode_graph(nodes, gates, by=by.id)
    growth = Growth(flow=trip.id, by=by.id, fence=by.fence, nodes=nodes, gates=gates, graph=graph)
    assert await trip.scene.store.flows.extend([growth]) == [Grown.GROWN]


async def plan_of(trip: Trip, *names: str, cascade: bool = False) -> Reopening:
    graph = Graph(await trip.scene.store.flows.graph(trip.id))
    nodes = [*(await trip.nodes()).values()]
    return plan_retry(await trip.info(), graph, nodes, names, cascade=cascade).reopening


async def test_nodes_that_are_added_anew_are_removed_with_all_that_is_theirs(scene: Scene) -> None:
    flows = scene.store.flows
    trip = await Trip.begin(scene, {"a": [], "c": ["a"]})
    await trip.claim()
    await grown_by_a(trip, "x", "y")
    await trip.end("a")
    await trip.claim()
    [x] = await scene.store.jobs.live([trip.ids["x"]])
    step = StepRecord(x.id, x.fence, "pay", 1)
    await scene.store.steps.record([step])
    await trip.end("x")
    await trip.end("y", end=FAILED)
    info = await trip.info()
    assert (info.state, info.total, info.failed) == (FlowState.FAILED, 4, 2)
    plan = await plan_of(trip, "a", cascade=True)
    assert set(plan.removed) == {trip.ids["x"], trip.ids["y"]}
    assert await flows.reopen([plan]) == [trip.id]
    assert await trip.states() == {"a": "ready", "c": "blocked"}
    info = await trip.info()
    assert (info.state, info.total, info.open, info.failed) == (FlowState.RUNNING, 2, 2, 0)
    gone = [trip.ids["x"], trip.ids["y"]]
    assert await scene.store.jobs.get(gone) == []
    assert await scene.store.steps.load(gone) == {}
    graph = Graph(await flows.graph(trip.id))
    assert set(graph.nodes) == {"a", "c"}
    assert drift_of(info, graph, [*(await trip.nodes()).values()]) == []
    await trip.claim()
    await grown_by_a(trip, "x")
    await trip.end("a")
    assert await trip.state("c") is JobState.BLOCKED
    await trip.end("x")
    await trip.end("c")
    info = await trip.info()
    assert (info.state, info.total, info.failed) == (FlowState.SUCCEEDED, 3, 0)
    assert await scene.store.telemetry.recount() == []
    scene.clock.advance(400 * 86_400)
    assert await flows.prune(10) == 1
    assert await scene.store.telemetry.recount() == []


async def test_nothing_runs_again_while_a_node_to_remove_is_live(scene: Scene) -> None:
    flows = scene.store.flows
    trip = await Trip.begin(scene, {"a": [], "c": ["a"]})
    await trip.claim()
    await grown_by_a(trip, "x", "y")
    await trip.end("a", "x")
    await trip.end("y", end=FAILED)
    plan = await plan_of(trip, "a", cascade=True)
    assert await flows.reopen([await plan_of(trip, "y")]) == [trip.id]
    late = msgspec.structs.replace(plan, epoch=(await trip.info()).epoch)
    before = (await trip.info(), await trip.nodes(), await flows.graph(trip.id))
    assert await flows.reopen([late]) == []
    assert (await trip.info(), await trip.nodes(), await flows.graph(trip.id)) == before
