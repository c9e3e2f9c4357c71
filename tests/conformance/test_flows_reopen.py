"""`Flows.reopen` and `Flows.mend`: nodes run again, and counts are made right."""

from __future__ import annotations

from holdfast.flow.model import FlowState, Mending, Reopening
from holdfast.job.state import JobState
from holdfast.job.step import StepRecord
from holdfast.job.ties import Tie
from tests.conformance.builders import FAILED, RETURNED, Scene
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
