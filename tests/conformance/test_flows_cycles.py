"""Two running nodes extend one flow at the same time, and together they would close a cycle."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from holdfast.errors import FlowCycle
from holdfast.flow.graph import encode_graph
from holdfast.flow.model import Growth
from holdfast.job.requests import Answer, ExtendFlow, FlowGrown
from holdfast.worker.attempt import Attempt
from holdfast.worker.flow_answers import FlowAnswers
from tests.conformance.builders import Scene
from tests.conformance.test_flows_extend import found_by_drift, grown
from tests.support.backends import siblings
from tests.support.flaky import FlakyStore, Line
from tests.support.flows import Trip, Waits

GRAPH: dict[str, Waits] = {"a": [], "b": [], "y": ["a", "b"], "z": ["a", "b"]}


@pytest.fixture
async def other(scene: Scene) -> AsyncIterator[Scene]:
    async with siblings(scene.store, 1) as [store]:
        yield scene.through(store)


async def begun(scene: Scene) -> Trip:
    trip = await Trip.begin(scene, GRAPH)
    await trip.claim()
    return trip


async def extend(answers: FlowAnswers, growth: Growth) -> Answer:
    """As the worker of the node that grows the flow does it."""
    job = SimpleNamespace(id=growth.by, fence=growth.fence)
    attempt = cast("Attempt", SimpleNamespace(job=job))
    text = msgspec.json.encode(growth).decode()
    return await answers.answer(attempt, ExtendFlow(text))


@pytest.mark.parametrize("late", ["a", "b"])
async def test_of_two_growths_that_close_a_cycle_together_the_later_one_is_refused(
    scene: Scene, other: Scene, late: str
) -> None:
    """The late one has looked at the graph, and is about to write, when the other one writes."""
    trip = await begun(scene)
    growths = {
        "a": grown(trip, await scene.live(trip.ids["a"]), {"yz": ["y"]}, z=["yz"]),
        "b": grown(trip, await scene.live(trip.ids["b"]), {"zy": ["z"]}, y=["zy"]),
    }
    early = "b" if late == "a" else "a"
    line = Line()
    line.first["extend"] = partial(extend, FlowAnswers(other.store), growths[early])
    with pytest.raises(FlowCycle, match="'z' waits for"):
        await extend(FlowAnswers(FlakyStore(scene.store, line)), growths[late])
    assert sorted(await trip.nodes()) == sorted([*GRAPH, growths[early].nodes[0].name])
    assert len(await scene.store.flows.graph(trip.id)) == 2
    assert await found_by_drift(scene, trip) == []
    await trip.end("a", "b")
    first, between, last = ("z", "zy", "y") if early == "b" else ("y", "yz", "z")
    for name in (first, between, last):
        await trip.end(name)
    assert (await trip.info()).open == 0


async def test_a_growth_looks_again_while_others_grow_the_flow(scene: Scene, other: Scene) -> None:
    """It is added in the end, and once."""
    trip = await begun(scene)
    by = await scene.live(trip.ids["a"])
    growth = grown(trip, by, {"yz": ["y"]}, z=["yz"])
    line = Line()

    async def grow_beside() -> None:
        await other.store.flows.extend([grown(trip, by, {f"beside {len(line.calls)}": []})])
        if len(line.calls) < 9:
            line.first["extend"] = grow_beside

    line.first["extend"] = grow_beside
    answer = await extend(FlowAnswers(FlakyStore(scene.store, line)), growth)
    assert answer == FlowGrown("grown")
    assert line.calls.count("extend") == 4
    assert line.calls.count("graph") == 4
    assert len((await trip.nodes())["z"].gates) == 2
    assert await found_by_drift(scene, trip) == []


async def test_a_growth_that_can_close_no_cycle_does_not_read_the_graph(scene: Scene) -> None:
    """Thousands of nodes may add to one flow at once."""
    trip = await begun(scene)
    by = await scene.live(trip.ids["a"])
    line = Line()
    answers = FlowAnswers(FlakyStore(scene.store, line))
    before = grown(trip, by, {"p": [], "q": ["p"]}, z=["q"])
    assert await extend(answers, before) == FlowGrown("grown")
    behind = grown(trip, by, {"r": ["y"], "s": ["r", "z"]})
    assert await extend(answers, behind) == FlowGrown("grown")
    assert line.calls == ["extend", "extend"]


async def test_a_kept_node_that_closes_a_cycle_is_seen_too(scene: Scene, other: Scene) -> None:
    """Both add a node `q`. The growth that is late means one that waits for nobody, and the flow
    has one that waits for `z`."""
    trip = await begun(scene)
    by = await scene.live(trip.ids["a"])
    first = grown(trip, by, {"q": ["z"]})
    del trip.ids["q"]
    second = grown(trip, by, {"q": [], "r": ["q"]}, z=["r"])
    line = Line()
    line.first["extend"] = partial(extend, FlowAnswers(other.store), first)
    with pytest.raises(FlowCycle, match="'z' waits for"):
        await extend(FlowAnswers(FlakyStore(scene.store, line)), second)
    assert sorted(await trip.nodes()) == sorted([*GRAPH, "q"])


@pytest.mark.parametrize(
    "graph", [{"p": ["q"], "q": ["p"]}, {"p": ["p"]}], ids=["each other", "itself"]
)
async def test_new_nodes_that_wait_for_each_other_are_refused(
    scene: Scene, graph: dict[str, Waits]
) -> None:
    trip = await begun(scene)
    growth = grown(trip, await scene.live(trip.ids["a"]), graph)
    with pytest.raises(FlowCycle, match="'p' waits for"):
        await extend(FlowAnswers(scene.store), growth)
    assert sorted(await trip.nodes()) == sorted(GRAPH)
    assert await scene.store.flows.graph(trip.id) == [encode_graph(trip.flow.nodes)]
