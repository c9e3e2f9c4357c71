"""`Flows.extend` by elements of a map: a shorter way to write nodes that are alike, and the same as
if each of them was written out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from holdfast.background.cancelling import cancel_jobs
from holdfast.flow.drift import drift_of
from holdfast.flow.errands import do_errand
from holdfast.flow.graph import Graph
from holdfast.flow.growing import MAP, Join, JoinCondition, MapPlan, growths
from holdfast.flow.kept import written_out
from holdfast.flow.model import FAILURE, SUCCESS, FlowId, FlowState, Grown, Growth
from holdfast.flow.reopening import plan_retry
from holdfast.job.ends import Cancelled, Skipped, Snoozed
from holdfast.job.policy import Policy, encode_policy
from holdfast.job.record import Job, Live
from holdfast.job.state import JobState
from tests.conformance.builders import FAILED, QUEUE, RETURNED, TASK, Scene
from tests.support.flows import Trip, Waits, any_of, ended, quorum

GRAPH: Mapping[str, Waits] = {"map": [], "join": ["map"], "other": ["map"]}


async def running_map(trip: Trip) -> Live:
    await trip.claim()
    [job] = await trip.scene.store.jobs.live([trip.ids["map"]])
    return job


def bites(trip: Trip, by: Live, items: int, **plan: Any) -> list[Growth]:
    """What a map of so many items adds, in bites of three."""
    given = plan if "joins" in plan else {"joins": (Join(trip.ids["join"]),), **plan}
    told = MapPlan("map", TASK, QUEUE, encode_policy(Policy(timeout=90.0)), '{"x":1}', "n", **given)
    texts = [str(n) for n in range(items)]
    return list(growths(told, texts, trip.id, by.id, by.fence))


@pytest.fixture(autouse=True)
def _small_bites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.flow.growing.ELEMENTS_AT_ONCE", 3)


def as_it_is(growth: Growth) -> Growth:
    return growth


async def grow(scene: Scene, growth: Growth) -> Grown:
    [grown] = await scene.store.flows.extend([growth])
    return grown


async def learn(trip: Trip) -> None:
    """The ids of all nodes by name."""
    trip.ids |= {name: node.job_id for name, node in (await trip.nodes()).items()}


async def drift(trip: Trip) -> list[str]:
    graph = Graph(await trip.scene.store.flows.graph(trip.id))
    return drift_of(await trip.info(), graph, [*(await trip.nodes()).values()])


async def jobs_by_name(trip: Trip) -> dict[str, Job]:
    await learn(trip)
    found = {job.id: job for job in await trip.scene.store.jobs.get([*trip.ids.values()])}
    return {name: found[job] for name, job in trip.ids.items()}


SKIPPED = Skipped("nothing to do")
ITS_OWN = ("id", "created_at", "claimed_at", "fence", "worker_id")


def alike(job: Job) -> dict[str, object]:
    told = msgspec.structs.asdict(job)
    return {name: value for name, value in told.items() if name not in ITS_OWN}


@pytest.mark.parametrize(
    "plan",
    [
        {},
        {"priority": 7, "tags": ("a", "b"), "headers": '{"trace":"1"}'},
        {"deadline_in": 60.0},
        {"joins": ()},
        {"joins": None},
    ],
    ids=["plain", "options", "deadline", "no join", "two joins"],
)
async def test_elements_are_the_nodes_that_they_stand_for(
    scene: Scene, plan: dict[str, Any]
) -> None:
    trips = [await Trip.begin(scene, GRAPH) for _ in range(2)]
    ways = []
    for trip, way in zip(trips, (as_it_is, written_out), strict=True):
        both = (Join(trip.ids["join"]), Join(trip.ids["other"], JoinCondition.END))
        more = {**plan, "joins": both} if plan.get("joins", ()) is None else plan
        by = await running_map(trip)
        for growth in bites(trip, by, 7, **more):
            assert await grow(scene, way(growth)) is Grown.GROWN
        nodes = await trip.nodes()
        names = {node.job_id: name for name, node in nodes.items()}
        gates = {
            name: [
                (
                    (gate.need, gate.total, gate.won, gate.lost, gate.losers),
                    sorted((names[edge.upstream], edge.wants) for edge in gate.edges),
                )
                for gate in node.gates
            ]
            for name, node in nodes.items()
        }
        info = await trip.info()
        jobs = {name: alike(job) for name, job in (await jobs_by_name(trip)).items()}
        sinks = {name: node.is_sink for name, node in nodes.items()}
        ways.append((gates, jobs, sinks, (info.total, info.open, info.epoch, info.state)))
        assert await drift(trip) == []
    assert ways[0] == ways[1]
    assert sorted(ways[0][1]) == ["join", "map", *(f"map[{n}]" for n in range(7)), "other"]
    assert ways[0][1]["map[4]"]["args_json"] == '{"x":1,"n":4}'
    assert await scene.store.telemetry.recount() == []


async def test_a_join_begins_when_the_map_and_all_elements_have_ended(scene: Scene) -> None:
    trip = await Trip.begin(scene, GRAPH)
    for growth in bites(trip, await running_map(trip), 7):
        assert await grow(scene, growth) is Grown.GROWN
    await learn(trip)
    elements = [f"map[{n}]" for n in range(7)]
    await trip.end("map", *elements[:-1])
    assert await trip.state("join") is JobState.BLOCKED
    assert await drift(trip) == []
    await trip.end(elements[-1])
    assert await trip.state("join") is JobState.READY
    await trip.end("join", "other")
    assert (await trip.info()).state is FlowState.SUCCEEDED


async def test_an_element_that_fails_skips_who_waits_for_all(scene: Scene) -> None:
    trip = await Trip.begin(scene, GRAPH)
    for growth in bites(trip, await running_map(trip), 5):
        await grow(scene, growth)
    await learn(trip)
    await trip.end("map[4]", end=FAILED)
    found = (await trip.nodes())["join"]
    assert (found.state, found.reason) == (JobState.SKIPPED, "'map[4]' is failed")
    await trip.end("map", *(f"map[{n}]" for n in range(4)))
    await trip.end("other")
    assert (await trip.info()).state is FlowState.FAILED
    assert await drift(trip) == []


async def test_elements_that_are_sent_again_change_nothing(scene: Scene) -> None:
    trip = await Trip.begin(scene, GRAPH)
    growths = bites(trip, await running_map(trip), 5)
    for growth in (*growths, *growths):
        assert await grow(scene, growth) is Grown.GROWN
    assert await scene.store.flows.extend([*growths, *growths]) == [Grown.GROWN] * 4
    info = await trip.info()
    assert (info.total, info.open) == (8, 8)
    assert len((await trip.nodes())["join"].gates) == 3
    assert await drift(trip) == []


async def test_elements_in_other_bites_than_before_add_what_is_new(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an update of the program in the middle of a map."""
    trip = await Trip.begin(scene, GRAPH)
    by = await running_map(trip)
    for growth in bites(trip, by, 5)[:1]:
        assert await grow(scene, growth) is Grown.GROWN
    monkeypatch.setattr("holdfast.flow.growing.ELEMENTS_AT_ONCE", 2)
    for growth in bites(trip, by, 5):
        assert await grow(scene, growth) is Grown.GROWN
    await learn(trip)
    assert (await trip.info()).total == 8
    await trip.end("map", *(f"map[{n}]" for n in range(4)))
    assert await trip.state("join") is JobState.BLOCKED
    await trip.end("map[4]")
    assert await trip.state("join") is JobState.READY


async def test_a_node_that_has_the_name_of_an_element_is_kept(scene: Scene) -> None:
    trip = await Trip.begin(scene, {**GRAPH, "map[1]": []})
    mine = trip.ids["map[1]"]
    for growth in bites(trip, await running_map(trip), 5):
        assert await grow(scene, growth) is Grown.GROWN
    await learn(trip)
    assert (trip.ids["map[1]"], (await trip.info()).total) == (mine, 8)
    await trip.end("map", *(f"map[{n}]" for n in (0, 2, 3, 4)))
    assert await trip.state("join") is JobState.BLOCKED
    await trip.end("map[1]")
    assert await trip.state("join") is JobState.READY
    assert await drift(trip) == []


async def test_a_zombie_adds_no_elements(scene: Scene) -> None:
    trip = await Trip.begin(scene, GRAPH)
    by = await running_map(trip)
    await scene.finish(by, Snoozed(0.0))
    assert await grow(scene, bites(trip, by, 3)[0]) is Grown.NOT_HELD
    assert (await trip.info()).total == 3


async def test_no_elements_are_added_to_a_flow_that_is_being_cancelled(scene: Scene) -> None:
    trip = await Trip.begin(scene, GRAPH)
    growth = bites(trip, await running_map(trip), 3)[0]
    await trip.close()
    assert await grow(scene, growth) is Grown.OVER
    assert (await trip.info()).total == 3


async def test_elements_of_a_paused_flow_are_added(scene: Scene) -> None:
    trip = await Trip.begin(scene, GRAPH)
    growth = bites(trip, await running_map(trip), 3)[0]
    await scene.store.flows.pause([trip.id])
    assert await grow(scene, growth) is Grown.GROWN
    assert await drift(trip) == []


@pytest.mark.parametrize("way", [as_it_is, written_out])
async def test_a_node_that_waits_no_more_keeps_no_gate_from_the_others(
    scene: Scene, way: Callable[[Growth], Growth]
) -> None:
    """Elements and the gates of all other nodes come at once: nobody finds the ones without the
    others. What is left out is in the graph, and counts if the node runs again."""
    waits: dict[str, Waits] = {name: ["map"] for name in ("ready", "cancelled", "skipped", "end")}
    graph: dict[str, Waits] = {"map": [], "x": [], "s": [], **waits}
    graph |= {"ready": any_of("map", "x"), "skipped": ["map", "s"], "end": ended("map")}
    trip = await Trip.begin(scene, graph)
    foreign = (await Trip.begin(scene, GRAPH)).ids["join"]
    by = await running_map(trip)
    await trip.end("x")
    await trip.end("s", end=SKIPPED)
    await cancel_jobs(scene.store.jobs, [trip.ids["cancelled"]], "unwanted")
    ids = {name: trip.ids[name] for name in waits}
    given = [Join(job) for name, job in ids.items() if name != "end"]
    joins = (*given, Join(foreign), Join(ids["end"], JoinCondition.END))
    growths = [way(growth) for growth in bites(trip, by, 4, joins=joins)]
    for growth in (*growths, *growths):
        assert await grow(scene, growth) is Grown.GROWN
    told = Graph(await scene.store.flows.graph(trip.id))
    assert [len(told.gates_of(job)) for job in ids.values()] == [3, 3, 3, 3]
    assert [gate.total for gate in (await trip.nodes())["end"].gates] == [1, 3, 1]
    assert await drift(trip) == []
    await learn(trip)
    await trip.end("map", "map[0]", "map[1]", "map[2]", "ready")
    assert await trip.state("end") is JobState.BLOCKED
    await trip.end("map[3]", end=FAILED)
    assert await trip.state("end") is JobState.READY
    await trip.end("end")
    info, nodes = await trip.info(), await trip.nodes()
    assert (info.state, info.open) == (FlowState.FAILED, 0)
    assert nodes["skipped"].reason == "'map[3]' is failed"


async def test_a_gate_alone_of_a_node_that_waits_no_more_is_told_by_the_graph(
    scene: Scene,
) -> None:
    trip = await Trip.begin(scene, {"map": [], "half": ["map"], "x": [], "other": ["map"]})
    by = await running_map(trip)
    joins = tuple(Join(trip.ids[name], share=0.5) for name in ("half", "other"))
    await cancel_jobs(scene.store.jobs, [trip.ids["half"]], "unwanted")
    growths = bites(trip, by, 2, joins=joins)
    for growth in (*growths, *growths):
        assert await grow(scene, growth) is Grown.GROWN
    told = Graph(await scene.store.flows.graph(trip.id))
    assert [len(told.gates_of(trip.ids[name])) for name in ("half", "other")] == [2, 2]
    assert [gate.need for gate in (await trip.nodes())["other"].gates] == [1, 1]
    assert len(await scene.store.flows.graph(trip.id)) == 1 + len(growths)
    assert await drift(trip) == []


async def test_elements_run_again_when_their_flow_is_reopened(scene: Scene) -> None:
    """What the row of an element says of its gate is of the time before."""
    trip = await Trip.begin(scene, GRAPH)
    for growth in bites(trip, await running_map(trip), 5):
        await grow(scene, growth)
    await learn(trip)
    await trip.end("map", *(f"map[{n}]" for n in range(4)))
    await trip.end("other")
    await trip.end("map[4]", end=FAILED)
    graph = Graph(await scene.store.flows.graph(trip.id))
    plan = plan_retry(await trip.info(), graph, [*(await trip.nodes()).values()])
    assert await scene.store.flows.reopen([plan.reopening]) == [trip.id]
    assert await trip.state("join") is JobState.BLOCKED
    assert await drift(trip) == []
    await trip.end("map[4]")
    assert await trip.state("join") is JobState.READY


# What waits for a map in other ways

WAITING: Mapping[str, Waits] = {
    "map": [],
    "end": ended("map"),
    "failure": quorum(1, "map", wants=SUCCESS | FAILURE),
    "half": ["map"],
    "most": ["map"],
    "early": ["map"],
}


def joins_of(trip: Trip) -> tuple[Join, ...]:
    ids = trip.ids
    return (
        Join(ids["end"], JoinCondition.END),
        Join(ids["failure"], JoinCondition.FAILURE),
        *(Join(ids["half"], share=0.5), Join(ids["half"], JoinCondition.END)),
        *(Join(ids["most"], share=0.9), Join(ids["most"], JoinCondition.END)),
        Join(ids["early"], share=0.5),
    )


async def waiting_map(scene: Scene, items: int) -> Trip:
    """The map has run twice, as after a crash at its very end, and has ended."""
    trip = await Trip.begin(scene, WAITING)
    growths = bites(trip, await running_map(trip), items, joins=joins_of(trip))
    for growth in (*growths, *growths):
        assert await grow(scene, growth) is Grown.GROWN
    await learn(trip)
    assert len(await scene.store.flows.graph(trip.id)) == 1 + len(growths)
    await trip.end("map")
    return trip


async def test_elements_decide_what_waits_for_their_map_in_every_way(scene: Scene) -> None:
    trip = await waiting_map(scene, 4)
    left = {"end", "failure", "half", "most", "early"}
    for name, end, moved in (
        ("map[0]", RETURNED, set[str]()),
        ("map[3]", RETURNED, {"early"}),
        ("map[1]", FAILED, {"failure", "most"}),
        ("map[2]", RETURNED, {"end", "half"}),
    ):
        await trip.end(name, end=end)
        left -= moved
        states = await trip.states()
        assert {node for node, state in states.items() if state == "blocked"} == left
        assert await drift(trip) == []
    await trip.end("end", "failure", "half", "early")
    states = await trip.states()
    assert [states[name] for name in ("most", "half")] == ["skipped", "succeeded"]


async def test_a_map_of_nothing_decides_what_waits_for_it(scene: Scene) -> None:
    trip = await waiting_map(scene, 0)
    await trip.end("end", "half", "most", "early")
    assert await trip.state("failure") is JobState.SKIPPED
    assert (await trip.info()).state is FlowState.SUCCEEDED


async def test_what_a_lost_map_makes_until_it_ends_is_cancelled_too(scene: Scene) -> None:
    """The map runs when it is lost, and adds elements before it hears of that."""
    graph: dict[str, Waits] = {"map": [], "x": [], "all": ["map"]}
    graph["first"] = any_of("all", "x", cancel=True)
    trip = await Trip.begin(scene, graph, node_options={"map": {"task": MAP}})
    await scene.claim(tasks=[MAP])
    by = await running_map(trip)
    some = bites(trip, by, 9, joins=(Join(trip.ids["all"]),))
    assert await grow(scene, some[0]) is Grown.GROWN
    await trip.end("x")
    [errand] = await scene.store.flows.errands(10)
    assert not await do_errand(scene.store, errand)
    assert await trip.state("all") is JobState.CANCELLED
    assert await grow(scene, some[1]) is Grown.GROWN
    assert not await do_errand(scene.store, errand)
    await scene.finish(await scene.live(trip.ids["map"]), Cancelled("told to"))
    await learn(trip)
    await scene.finish(await scene.live(trip.ids["map[2]"]), RETURNED)
    assert await do_errand(scene.store, errand)
    assert await scene.store.flows.errands(10) == []
    for job in await scene.store.jobs.live([*trip.ids.values()]):
        assert job.cancel_requested or job.id == trip.ids["first"]


async def test_what_a_lost_map_makes_while_its_losers_are_looked_for_is_cancelled_too(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The map writes its last elements and ends when the graph has been read."""
    graph: dict[str, Waits] = {"map": [], "x": [], "all": ["map"]}
    graph["first"] = any_of("all", "x", cancel=True)
    trip = await Trip.begin(scene, graph, node_options={"map": {"task": MAP}})
    await scene.claim(tasks=[MAP])
    by = await running_map(trip)
    some = bites(trip, by, 6, joins=(Join(trip.ids["all"]),))
    assert await grow(scene, some[0]) is Grown.GROWN
    await trip.end("x")
    [errand] = await scene.store.flows.errands(10)
    read = scene.store.flows.graph

    async def then_grow(flow: FlowId) -> list[str]:
        monkeypatch.undo()
        found = await read(flow)
        assert await grow(scene, some[1]) is Grown.GROWN
        await scene.finish(await scene.live(by.id), RETURNED)
        return found

    monkeypatch.setattr(scene.store.flows, "graph", then_grow)
    assert not await do_errand(scene.store, errand)
    assert await do_errand(scene.store, errand)
    await learn(trip)
    live = await scene.store.jobs.live([*trip.ids.values()])
    going_on = {job.id for job in live if not job.cancel_requested}
    assert going_on == {trip.ids["first"]}
