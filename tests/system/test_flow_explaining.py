"""What `explain` says of nodes and flows, from states that are really there, on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from holdfast.client.client import Client
from holdfast.clock import ManualClock
from holdfast.events import Events
from holdfast.flow.errands import do_errand
from holdfast.flow.graph import encode_graph
from holdfast.insights.actions import Action, Noun, Verb
from holdfast.insights.reasons import Reason, Who
from holdfast.job.ends import Cancelled, Skipped
from holdfast.job.state import JobState
from holdfast.schedule.providers import Providers
from holdfast.store.contract.store import Store
from tests.conformance.builders import FAILED, RAISED, Scene
from tests.support.flows import Trip, Waits, any_of, ended, failed, new_flow, quorum

ANN = "ann@desk"


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> Scene:
    return await Scene.on(store, clock)


@pytest.fixture
async def client(store: Store) -> AsyncIterator[Client]:
    client = Client(store, Providers(), Events())
    yield client
    await client.aclose()


async def begin(scene: Scene, graph: dict[str, Waits], **options: Any) -> Trip:
    """A started flow whose graph can be read back."""
    flow = new_flow(graph, **options)
    flow = msgspec.structs.replace(flow, graph=encode_graph(flow.nodes))
    await scene.store.flows.start([flow])
    return Trip(scene, flow, {node.name: node.job.id for node in flow.nodes})


async def reasons(client: Client, trip: Trip, name: str) -> list[Reason]:
    return list((await client.explain(trip.ids[name])).reasons)


async def fact(client: Client, trip: Trip, name: str) -> str:
    [reason] = await reasons(client, trip, name)
    return reason.fact


async def test_every_upstream_of_a_gate_is_named_with_how_it_stands(
    scene: Scene, client: Client
) -> None:
    graph: dict[str, Waits] = {
        "parse": [],
        "fetch": [],
        "ocr": [],
        "report": quorum(2, "parse", "fetch", "ocr"),
    }
    options = {"fetch": {"priority": -2}, "parse": {"priority": -1}}
    trip = await begin(scene, graph, node_options=options)
    for _ in range(2):
        await scene.finish(await scene.claim_one(), RAISED)
        scene.clock.advance(10)
        await scene.store.jobs.promote_due(10)
    await scene.finish(await scene.claim_one(), RAISED)
    assert (await scene.claim_one()).id == trip.ids["parse"]
    await scene.enqueue_many(14, priority=-3)
    scene.clock.advance(3)
    [reason] = await reasons(client, trip, "report")
    assert reason.fact == (
        "waits for 2 of 3: 'parse' runs on worker since 3.0 s"
        " · 'fetch' retries in 7.0 s (3 of 5 attempts)"
        " · 'ocr' is ready, 14 ahead of it in queue 'default'"
    )
    assert (reason.code, reason.who) == ("gate", Who.WORKER)


async def test_an_obstacle_of_an_upstream_is_told_with_its_remedy(
    scene: Scene, client: Client
) -> None:
    trip = await begin(scene, {"a": [], "b": ["a"]})
    await scene.store.queues.pause(["default"])
    [reason] = await reasons(client, trip, "b")
    assert reason.fact == (
        "waits for 'a', which is ready, next in line in queue 'default': queue 'default' is paused"
    )
    assert reason.who is Who.OPERATOR
    assert reason.action == Action(Noun.QUEUES, Verb.RESUME, "default")


async def test_the_last_chance_of_an_any_of_is_said(scene: Scene, client: Client) -> None:
    trip = await begin(scene, {"fast": [], "good": [], "reply": any_of("fast", "good")})
    await trip.end("fast", end=FAILED)
    assert await fact(client, trip, "reply") == (
        "waits for any of 2, one failed: 'good' runs on worker since 0.0 s;"
        " if it fails too, this is skipped"
    )


async def test_what_is_lost_so_far_is_said_of_a_quorum(scene: Scene, client: Client) -> None:
    graph: dict[str, Waits] = {name: [] for name in "abcd"}
    trip = await begin(scene, graph | {"x": quorum(2, *"abcd")})
    await trip.end("a", end=FAILED)
    await trip.end("b", end=Cancelled())
    said = await fact(client, trip, "x")
    assert said.startswith("waits for 2 of 4, one failed, one was cancelled: 'c' runs")
    assert said.endswith("; if one of them fails, this is skipped")


async def test_edges_that_want_a_failure_or_any_end_say_so(scene: Scene, client: Client) -> None:
    trip = await begin(scene, {"a": [], "b": [], "alarm": failed("a"), "tidy": ended("a", "b")})
    await trip.claim()
    assert (await fact(client, trip, "alarm")).startswith("waits for 'a' to fail, which runs")
    assert (await fact(client, trip, "tidy")).startswith("waits for all 2 to end: 'a' runs")


async def test_each_gate_is_a_reason(scene: Scene, client: Client) -> None:
    trip = await begin(scene, {"a": [], "b": [], "c": ["a"], "x": ["a", any_of("b", "c")]})
    await trip.end("b", end=Skipped("no"))
    first, second = await reasons(client, trip, "x")
    assert first.fact.startswith("waits for 'a', which runs")
    assert "any of 2, one was skipped: 'c' is blocked itself" in second.fact


async def test_a_join_of_many_names_few(scene: Scene, client: Client) -> None:
    graph: dict[str, Waits] = {f"n{number:03}": [] for number in range(300)}
    trip = await begin(scene, graph | {"join": list(graph)})
    await scene.claim_one()
    said = await fact(client, trip, "join")
    assert said.startswith("waits for all 300: 'n000' runs on worker since 0.0 s · 'n001' is ready")
    assert said.endswith("and 295 more (295 ready)")
    whole = await client.flows.explain(trip.id)
    assert (len(whole.frontier), whole.left_out) == (20, {JobState.READY: 280})
    assert len(str(whole.waiting)) < 1_000


async def test_a_paused_flow_is_named_as_the_gate_with_who_paused_it(
    scene: Scene, client: Client
) -> None:
    trip = await begin(scene, {"a": [], "b": ["a"]})
    await client.flows.pause(trip.id, by=ANN)
    held, gate = await reasons(client, trip, "b")
    assert held.fact == "its flow 'trip' is paused (paused by ann@desk)"
    assert (held.code, held.who) == ("flow-paused", Who.OPERATOR)
    assert held.action == Action(Noun.FLOWS, Verb.RESUME, trip.id)
    assert gate.fact.startswith("waits for 'a'")
    await trip.end("a")
    [held] = await reasons(client, trip, "b")
    assert held.code == "flow-paused"
    whole = await client.flows.explain(trip.id)
    assert [one.code for one in whole.held] == ["flow-paused"]
    assert [(one.name, one.why) for one in whole.waiting] == [("b", "waits for its flow alone")]


async def test_a_cancelling_flow_is_named_as_the_gate(scene: Scene, client: Client) -> None:
    trip = await begin(scene, {"a": [], "b": ["a"]})
    await trip.claim()
    await client.flows.cancel(trip.id, by=ANN)
    held, _ = await reasons(client, trip, "b")
    assert held.fact == "its flow 'trip' is being cancelled (cancelled by ann@desk)"
    assert (held.code, held.who) == ("flow-cancelling", Who.WORKER)


async def test_a_skip_is_explained_back_to_the_first_failure(scene: Scene, client: Client) -> None:
    trip = await begin(scene, {"a": [], "b": ["a"], "c": ["b"], "ok": [], "d": ["c", "ok"]})
    await trip.end("a", end=FAILED)
    explained = await client.explain(trip.ids["d"])
    [reason] = explained.reasons
    assert reason.fact == (
        "it was skipped because 'c' was skipped, because 'b' was skipped, because 'a' failed"
    )
    assert reason.action == Action(Noun.FLOWS, Verb.RETRY, trip.id, value="a")
    assert explained.cause is not None
    assert (explained.cause.name, explained.cause.reason) == ("a", "give up")


async def test_a_long_chain_of_causes_is_cut_in_the_middle(scene: Scene, client: Client) -> None:
    names = [f"n{number:02}" for number in range(12)]
    graph: dict[str, Waits] = {names[0]: []}
    graph |= {name: [names[place]] for place, name in enumerate(names[1:])}
    trip = await begin(scene, graph)
    await trip.end("n00", end=FAILED)
    assert await fact(client, trip, "n11") == (
        "it was skipped because 'n10' was skipped, because 'n09' was skipped,"
        " and so on through 7 more nodes, because 'n01' was skipped, because 'n00' failed"
    )


async def test_other_causes_of_a_skip_are_said_too(scene: Scene, client: Client) -> None:
    trip = await begin(scene, {"a": [], "b": [], "c": [], "x": ["a"], "y": ["b"], "z": failed("c")})
    await trip.end("a", end=Cancelled("no", ANN))
    await trip.end("b", end=Skipped("nothing to do"))
    await trip.end("c")
    assert await fact(client, trip, "x") == "it was skipped because 'a' was cancelled"
    assert await fact(client, trip, "y") == "it was skipped because 'b' skipped itself"
    assert await fact(client, trip, "z") == "it was skipped because 'c' succeeded"
    assert await fact(client, trip, "b") == "it skipped itself: nothing to do"
    assert (await reasons(client, trip, "y"))[0].who is Who.NOBODY


async def test_a_failure_says_what_was_skipped_because_of_it(scene: Scene, client: Client) -> None:
    trip = await begin(scene, {"a": [], "b": ["a"], "c": ["b"]})
    await trip.end("a", end=FAILED)
    [reason] = await reasons(client, trip, "a")
    assert reason.fact == "it has ended as failed: give up; 2 nodes were skipped because of it"
    assert reason.action == Action(Noun.FLOWS, Verb.RETRY, trip.id, value="a")


async def test_a_flow_tells_its_frontier_its_causes_and_the_longest_path_left(
    scene: Scene, client: Client
) -> None:
    graph: dict[str, Waits] = {"a": [], "b": ["a"], "c": ["b"], "bad": [], "lost": ["bad"], "z": []}
    trip = await begin(scene, graph)
    await trip.end("bad", end=FAILED)
    scene.clock.advance(5)
    whole = await client.flows.explain(trip.id)
    assert [(one.name, one.why) for one in whole.frontier] == [
        ("a", "runs on worker since 5.0 s"),
        ("z", "runs on worker since 5.0 s"),
    ]
    assert [one.name for one in whole.waiting] == ["b", "c"]
    assert [(one.name, one.reason) for one in whole.causes] == [("bad", "give up")]
    assert (whole.skipped, whole.left_out) == (1, {})
    assert whole.longest_path == ("a", "b", "c")


async def test_a_loser_that_ran_says_who_needs_it_no_more(scene: Scene, client: Client) -> None:
    graph: dict[str, Waits] = {"quick": [], "late": [], "next": any_of("quick", "late")}
    trip = await begin(scene, graph)
    await trip.claim()
    told = "lost to 'quick': 'next' needs it no more"
    await scene.store.jobs.request_cancel([trip.ids["late"]], None, told)
    await trip.end("quick")
    await trip.end("late", end=Cancelled())
    [cause] = (await client.flows.explain(trip.id)).causes
    assert (cause.name, cause.reason) == ("late", told)
    assert await fact(client, trip, "late") == f"it has ended as cancelled: {told}"
    shown = {node.name: node.reason for node in await client.flows.nodes(trip.id)}
    assert shown["late"] == told
    assert (await client.get(trip.ids["late"])).reason == told
    assert [job.reason for job in (await client.page(state="cancelled")).jobs] == [told]
    assert [node.reason for node in await client.shown.nodes([cause])] == [told]


async def test_a_node_that_an_operator_cancelled_is_no_loser(scene: Scene, client: Client) -> None:
    trip = await begin(scene, {"a": []})
    await trip.claim()
    await client.cancel(trip.ids["a"], by=ANN)
    await trip.end("a", end=Cancelled())
    [cause] = (await client.flows.explain(trip.id)).causes
    assert cause.reason == Cancelled().reason
    assert (await client.get(trip.ids["a"])).reason == Cancelled().reason


# Lives and acts -----------------------------------------------------------------------------------


async def test_the_life_of_a_node_tells_what_was_done_to_its_flow(
    scene: Scene, client: Client
) -> None:
    trip = await begin(scene, {"a": [], "b": ["a"]})
    scene.clock.advance(1)
    await client.flows.pause(trip.id, by=ANN)
    scene.clock.advance(1)
    await client.flows.resume(trip.id, by=ANN)
    scene.clock.advance(1)
    await trip.end("a", end=FAILED)
    scene.clock.advance(1)
    await client.flows.retry(trip.id, by=ANN)
    life = await client.life(trip.ids["b"])
    told = [(one.verb, one.by) for one in life.of_flow]
    assert told == [("flows.pause", ANN), ("flows.resume", ANN), ("flows.retry", ANN)]
    [_, requeued] = life.moments
    assert (requeued.what.value, requeued.by, requeued.note) == (
        "requeued",
        ANN,
        "it was skipped",
    )


async def test_the_verbs_of_flows_are_in_the_audit_with_who_did_them(
    scene: Scene, client: Client
) -> None:
    trip = await begin(scene, {"a": [], "b": ["a"]})
    await client.flows.pause(trip.id, by=ANN)
    await client.flows.resume(trip.id, by=ANN)
    await trip.claim()
    await client.flows.cancel(trip.id, "waiting", by=ANN)
    for errand in await scene.store.flows.errands(10):
        await do_errand(scene.store, errand)
    await trip.end("a", end=FAILED)
    await client.flows.retry(trip.id, by=ANN)
    acts = (await client.audit.page(target=trip.id)).entries
    assert [(act.verb, act.by, act.arguments) for act in reversed(acts)] == [
        ("flows.pause", ANN, None),
        ("flows.resume", ANN, None),
        ("flows.cancel", ANN, '{"what":"waiting"}'),
        ("flows.retry", ANN, '{"nodes":["a"]}'),
    ]
