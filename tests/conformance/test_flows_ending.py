"""How a flow ends when nodes were cancelled one by one, and what the reason of a skip says."""

from __future__ import annotations

import pytest

from holdfast.flow.errands import do_errand
from holdfast.flow.graph import Graph, encode_graph
from holdfast.flow.model import CloseWhat, FlowState
from holdfast.flow.reopening import plan_retry
from holdfast.job.ends import Cancelled, DeadlinePassed, End, Skipped
from holdfast.job.outcome import decide
from holdfast.job.what import What
from tests.conformance.builders import FAILED, RETURNED, Scene
from tests.support.flows import Trip, Waits, any_of, ended, failed, new_flow

ANN = "ann@desk"
CANCELLED = Cancelled("not wanted", ANN)

ALONE: list[tuple[str, dict[str, Waits], dict[str, End], FlowState]] = [
    ("a sink", {"a": []}, {"a": CANCELLED}, FlowState.CANCELLED),
    ("one sink of two", {"a": [], "b": []}, {"a": CANCELLED, "b": RETURNED}, FlowState.CANCELLED),
    ("what a sink needs", {"a": [], "b": ["a"]}, {"a": CANCELLED}, FlowState.CANCELLED),
    (
        "what a sink needs, far back",
        {"a": [], "b": ["a"], "c": ["b"]},
        {"a": CANCELLED},
        FlowState.CANCELLED,
    ),
    (
        "a sink beside a failure",
        {"a": [], "b": []},
        {"a": CANCELLED, "b": FAILED},
        FlowState.FAILED,
    ),
    (
        "a sink beside a deadline",
        {"a": [], "b": []},
        {"a": CANCELLED, "b": DeadlinePassed()},
        FlowState.FAILED,
    ),
    (
        "one that another replaces",
        {"a": [], "b": [], "c": any_of("a", "b")},
        {"a": CANCELLED, "b": RETURNED, "c": RETURNED},
        FlowState.SUCCEEDED,
    ),
    (
        "one whose end alone is awaited",
        {"a": [], "b": ended("a")},
        {"a": CANCELLED, "b": RETURNED},
        FlowState.SUCCEEDED,
    ),
    (
        "one whose failure is awaited",
        {"a": [], "b": failed("a")},
        {"a": CANCELLED},
        FlowState.CANCELLED,
    ),
    ("none: it skips itself", {"a": [], "b": ["a"]}, {"a": Skipped("no")}, FlowState.SUCCEEDED),
]


@pytest.mark.parametrize(
    ("graph", "ends", "state"), [one[1:] for one in ALONE], ids=[one[0] for one in ALONE]
)
async def test_a_node_that_is_cancelled_alone(
    scene: Scene, graph: dict[str, Waits], ends: dict[str, End], state: FlowState
) -> None:
    trip = await Trip.begin(scene, graph)
    for name, end in ends.items():
        await trip.end(name, end=end)
    info = await trip.info()
    assert (info.state, info.open) == (state, 0)
    assert (info.failed > 0) == (state is not FlowState.SUCCEEDED)


async def test_what_was_cancelled_alone_succeeds_when_it_runs_again(scene: Scene) -> None:
    trip = await drawn(scene, {"a": [], "b": [], "c": ["b"]})
    await trip.end("a")
    await trip.end("b", end=CANCELLED)
    assert (await trip.info()).state is FlowState.CANCELLED
    await retry(trip, "b")
    assert (await trip.info()).failed == 0
    await trip.end("b")
    await trip.end("c")
    assert (await trip.info()).state is FlowState.SUCCEEDED


async def test_one_of_two_cancelled_sinks_that_runs_again_leaves_the_other(scene: Scene) -> None:
    trip = await drawn(scene, {"a": [], "b": []})
    await trip.end("a", "b", end=CANCELLED)
    await retry(trip, "a")
    await trip.end("a")
    assert (await trip.info()).state is FlowState.CANCELLED


async def test_a_flow_of_which_what_was_blocked_is_cancelled_ends_as_cancelled(
    scene: Scene,
) -> None:
    trip = await drawn(scene, {"a": [], "b": ["a"]})
    await trip.close(CloseWhat.BLOCKED)
    await do_errands(scene)
    await trip.end("a")
    assert (await trip.info()).state is FlowState.CANCELLED


async def test_losers_keep_no_flow_from_succeeding(scene: Scene) -> None:
    graph: dict[str, Waits] = {"z": [], "a": ["z"], "b": [], "c": any_of("a", "b", cancel=True)}
    trip = await drawn(scene, graph)
    await trip.end("b")
    await do_errands(scene)
    jobs = await scene.store.jobs.live(list(trip.ids.values()))
    left = [job for job in jobs if job.id != trip.ids["c"]]
    await scene.store.jobs.finish([decide(job, Cancelled()) for job in left])
    await trip.end("c")
    assert (await trip.info()).state is FlowState.SUCCEEDED
    assert {await trip.state("a"), await trip.state("z")} == {"cancelled"}


async def test_a_loser_goes_although_the_winner_waits_for_others_still(scene: Scene) -> None:
    graph: dict[str, Waits] = {"a": [], "b": [], "z": [], "c": ["z", any_of("a", "b", cancel=True)]}
    trip = await drawn(scene, graph)
    await trip.end("a")
    await do_errands(scene)
    assert (await scene.job(trip.ids["b"])).cancel_requested_at is not None
    assert (await scene.job(trip.ids["z"])).cancel_requested_at is None
    assert await trip.state("c") == "blocked"


# Reasons ------------------------------------------------------------------------------------------


async def test_of_several_upstreams_the_first_by_name_is_the_reason_of_a_skip(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"m": [], "b": [], "z": [], "x": ["z", "m", "b"]})
    await trip.end("z", "m", "b", end=FAILED)
    assert (await trip.nodes())["x"].reason == "'b' is failed"


async def test_a_chain_of_skips_names_the_node_before_each(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"], "c": ["b"]})
    await trip.end("a", end=DeadlinePassed())
    nodes = await trip.nodes()
    assert [nodes[name].reason for name in "bc"] == ["'a' is expired", "'b' is skipped"]


async def test_a_skip_that_a_pause_held_up_has_a_reason_too(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    await scene.store.flows.pause([trip.id])
    await trip.end("a", end=FAILED)
    await scene.store.flows.resume([trip.id])
    assert (await trip.nodes())["b"].reason == "a node that it needs has ended"


async def test_a_flow_keeps_why_it_was_paused_until_it_goes_on(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    await scene.store.flows.pause([trip.id], "paused by ann@desk")
    assert (await trip.info()).reason == "paused by ann@desk"
    await scene.store.flows.resume([trip.id])
    assert (await trip.info()).reason is None
    await scene.store.flows.pause([trip.id])
    assert (await trip.info()).reason is None


async def test_a_cancelled_flow_keeps_who_cancelled_it_and_its_nodes_say_so(scene: Scene) -> None:
    trip = await drawn(scene, {"a": [], "b": ["a"]})
    await trip.claim()
    await scene.store.flows.close([trip.id], CloseWhat.ALL, "cancelled by ann@desk")
    await do_errands(scene)
    assert (await trip.nodes())["b"].reason == "its flow was cancelled by ann@desk"
    [asked] = await scene.store.jobs.life([trip.ids["a"]])
    assert (asked.what, asked.message) == (
        What.CANCEL_ASKED,
        "its flow was cancelled by ann@desk",
    )
    await trip.end("a", end=Cancelled())
    info = await trip.info()
    assert (info.state, info.reason) == (FlowState.CANCELLED, "cancelled by ann@desk")
    await retry(trip, "a")
    assert (await trip.info()).reason is None


# Lives --------------------------------------------------------------------------------------------


async def test_a_node_that_runs_again_is_told_so_with_who_asked(scene: Scene) -> None:
    trip = await drawn(scene, {"a": [], "b": ["a"], "c": []})
    await trip.end("a", end=FAILED)
    await retry(trip, by=ANN)
    [_, told_a] = await scene.store.jobs.life([trip.ids["a"]])
    [told_b] = await scene.store.jobs.life([trip.ids["b"]])
    assert (told_a.what, told_a.by, told_a.message) == (What.REQUEUED, ANN, "failed")
    assert (told_b.what, told_b.by, told_b.message) == (What.REQUEUED, ANN, "skipped")
    assert told_b.at == scene.clock.now
    assert await scene.store.jobs.life([trip.ids["c"]]) == []


async def test_a_loser_is_told_who_needs_it_no_more(scene: Scene) -> None:
    trip = await drawn(scene, {"a": [], "z": [], "b": ["z"], "c": any_of("a", "b", cancel=True)})
    await trip.end("a")
    await do_errands(scene)
    said = "lost to 'a': 'c' needs it no more"
    [told] = await scene.store.jobs.life([trip.ids["b"]])
    assert (told.what, told.message, told.by) == (What.CANCELLED, said, None)
    [asked] = await scene.store.jobs.life([trip.ids["z"]])
    assert (asked.what, asked.message) == (What.CANCEL_ASKED, said)


async def drawn(scene: Scene, graph: dict[str, Waits]) -> Trip:
    """A started flow whose graph can be read back."""
    flow = new_flow(graph)
    flow = type(flow)(
        id=flow.id, name=flow.name, nodes=flow.nodes, graph=encode_graph(flow.nodes), keep=flow.keep
    )
    await scene.store.flows.start([flow])
    return Trip(scene, flow, {node.name: node.job.id for node in flow.nodes})


async def retry(trip: Trip, *names: str, by: str | None = None) -> None:
    store = trip.scene.store
    graph = Graph(await store.flows.graph(trip.id))
    plan = plan_retry(await trip.info(), graph, list((await trip.nodes()).values()), names)
    assert await store.flows.reopen([plan.reopening], by) == [trip.id]


async def do_errands(scene: Scene) -> None:
    while owed := await scene.store.flows.errands(10):
        for errand in owed:
            await do_errand(scene.store, errand)
