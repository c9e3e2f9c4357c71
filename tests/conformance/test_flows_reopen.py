"""`Flows.reopen` and `Flows.mend`: nodes run again, and counts are made right."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.errors import BadFlow
from holdfast.flow.drift import drift_of
from holdfast.flow.graph import Graph, encode_graph
from holdfast.flow.ids import new_node_id
from holdfast.flow.model import FlowState, Grown, Growth, Mending, NewNode, Reopening
from holdfast.flow.reopening import RetryPlan, plan_retry
from holdfast.job.ends import Cancelled, DeadlinePassed, End
from holdfast.job.outcome import decide
from holdfast.job.state import JobState
from holdfast.job.step import StepRecord
from holdfast.job.ties import Tie
from tests.conformance.builders import FAILED, RETURNED, Scene, new_job
from tests.support.flows import Trip, Waits, any_of, ended, failed, gates_of, new_flow, quorum


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


async def planned(trip: Trip, *names: str, cascade: bool = False) -> RetryPlan:
    graph = Graph(await trip.scene.store.flows.graph(trip.id))
    nodes = [*(await trip.nodes()).values()]
    return plan_retry(await trip.info(), graph, nodes, names, cascade=cascade)


async def plan_of(trip: Trip, *names: str, cascade: bool = False) -> Reopening:
    return (await planned(trip, *names, cascade=cascade)).reopening


async def retry(trip: Trip, *names: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The nodes that run again at once, and those that wait again."""
    plan = await planned(trip, *names)
    assert await trip.scene.store.flows.reopen([plan.reopening]) == [trip.id]
    return plan.again, plan.wait


async def cancelled(scene: Scene, graph: dict[str, Waits], **options: Any) -> Trip:
    """A flow whose node `c` was cancelled before it was released."""
    trip = await Trip.begin(scene, graph, **options)
    await trip.claim()
    await scene.finish(await scene.live(trip.ids["c"]), Cancelled("no more"))
    assert await trip.state("c") is JobState.CANCELLED
    return trip


WAITING: dict[str, Waits] = {
    "all": ["a", "b"],
    "any": any_of("a", "b"),
    "ended": ended("a", "b"),
    "failed": failed("a", "b"),
    "two": [ended("a"), quorum(1, "b")],
}


@pytest.mark.parametrize("waits", WAITING.values(), ids=WAITING)
async def test_a_node_runs_again_when_what_it_waits_for_has_ended(
    scene: Scene, waits: Waits
) -> None:
    trip = await cancelled(scene, {"a": [], "b": [], "c": waits})
    assert await retry(trip, "c") == ((), ("c",))
    assert await trip.state("c") is JobState.BLOCKED
    await trip.end("a", end=FAILED if waits is WAITING["failed"] else RETURNED)
    if waits not in (WAITING["any"], WAITING["failed"]):
        assert await trip.state("c") is JobState.BLOCKED
        await trip.end("b")
    assert await trip.state("c") is JobState.READY
    assert await scene.store.telemetry.recount() == []


async def test_a_node_that_runs_again_counts_what_has_ended(scene: Scene) -> None:
    trip = await cancelled(scene, {"a": [], "b": [], "c": ["a", "b"]})
    await trip.end("a")
    assert await retry(trip, "c") == ((), ("c",))
    [gate] = (await trip.nodes())["c"].gates
    assert (gate.won, gate.lost, len(gate.edges)) == (1, 0, 1)
    await trip.end("b")
    await trip.end("c")
    assert (await trip.info()).state is FlowState.SUCCEEDED


async def test_a_node_that_has_all_it_waits_for_runs_again_at_once(scene: Scene) -> None:
    trip = await cancelled(scene, {"a": [], "b": [], "c": any_of("a", "b")})
    await trip.end("a")
    assert await retry(trip, "c") == (("c",), ())
    assert await trip.state("c") is JobState.READY


async def test_a_node_that_passed_its_deadline_waits_again_for_what_still_runs(
    scene: Scene,
) -> None:
    options = {"c": {"deadline_in": 60.0}}
    trip = await Trip.begin(scene, {"a": [], "c": ["a"]}, node_options=options)
    await trip.claim()
    scene.clock.advance(61)
    late = await scene.store.jobs.past_deadline(10)
    await scene.store.jobs.finish([decide(job, DeadlinePassed()) for job in late])
    assert await trip.states() == {"a": "running", "c": "expired"}
    assert await retry(trip) == ((), ("c",))
    assert await trip.states() == {"a": "running", "c": "blocked"}
    await trip.end("a")
    assert await trip.state("c") is JobState.READY


@pytest.mark.parametrize("end", [RETURNED, FAILED], ids=["returned", "failed"])
async def test_what_ends_between_the_plan_and_the_reopening_counts_at_once(
    scene: Scene, end: End
) -> None:
    trip = await cancelled(scene, {"a": [], "b": [], "c": ["a"]})
    plan = await plan_of(trip, "c")
    await trip.end("a", end=end)
    assert await scene.store.flows.reopen([plan]) == [trip.id]
    after = JobState.READY if end is RETURNED else JobState.SKIPPED
    assert await trip.state("c") is after


async def test_a_node_that_could_only_be_skipped_again_is_refused_by_name(scene: Scene) -> None:
    trip = await cancelled(scene, {"a": [], "b": [], "c": ["a", "b"], "d": ["c"], "e": failed("a")})
    await trip.end("a")
    assert await trip.states() == {
        "a": "succeeded",
        "b": "running",
        "c": "cancelled",
        "d": "skipped",
        "e": "skipped",
    }
    with pytest.raises(BadFlow, match="node 'd' cannot run: it waits for 'c', which is cancelled"):
        await planned(trip, "d")
    with pytest.raises(BadFlow, match="'e' cannot run: it waits for 'a', which is succeeded"):
        await planned(trip, "e")
    await trip.end("b")
    assert await retry(trip, "c", "d") == (("c",), ("d",))


async def test_a_named_node_waits_for_no_other_that_has_failed_and_is_kept(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "c": ["a", "b"]})
    await trip.end("a", "b", end=FAILED)
    with pytest.raises(BadFlow, match=r"'c' cannot run: .*'b', which is failed; retry 'b' too"):
        await planned(trip, "a", "c")
    assert await retry(trip, "a", "b", "c") == (("a", "b"), ("c",))


async def test_a_node_that_could_only_be_skipped_again_is_left_out(scene: Scene) -> None:
    options = {"c": {"deadline_in": 60.0}}
    trip = await Trip.begin(scene, {"a": [], "b": [], "c": ["a"]}, node_options=options)
    await trip.claim()
    scene.clock.advance(61)
    late = await scene.store.jobs.past_deadline(10)
    await scene.store.jobs.finish([decide(job, DeadlinePassed()) for job in late])
    await trip.end("a", end=Cancelled("no more"))
    with pytest.raises(BadFlow, match="'c' cannot run: it waits for 'a', which is cancelled"):
        await planned(trip)
    await trip.end("b", end=FAILED)
    assert await retry(trip) == (("b",), ())
    assert await trip.states() == {"a": "cancelled", "b": "ready", "c": "expired"}


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
