"""Defects that crash points and random graphs found in flows, each on every store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import BadFlow
from holdfast.flow.errands import do_errand
from holdfast.flow.graph import Graph
from holdfast.flow.model import CloseWhat, FlowState, Grown, NewEdge, NewGate
from holdfast.flow.reopening import plan_retry
from holdfast.job.ends import Cancelled
from holdfast.job.ids import JobId, new_job_id
from holdfast.job.outcome import decide
from holdfast.job.transition import Transition
from holdfast.store.contract.records import Verdict
from tests.conformance.builders import FAILED, Scene
from tests.conformance.test_flows_extend import grown
from tests.support.cascades import cut_off_at
from tests.support.flows import Trip, Waits, any_of


async def retry(trip: Trip, *names: str) -> bool:
    """As an operator does it: look, plan, and apply."""
    flows = trip.scene.store.flows
    nodes = list((await trip.nodes()).values())
    plan = plan_retry(await trip.info(), Graph(await flows.graph(trip.id)), nodes, names)
    return bool(await flows.reopen([plan.reopening]))


async def do_errands(scene: Scene) -> None:
    for errand in await scene.store.flows.errands(100):
        await do_errand(scene.store, errand)


async def cancel_all(trip: Trip) -> None:
    """What whoever does the errand of a close does first."""
    jobs = trip.scene.store.jobs
    live = await jobs.live(list(trip.ids.values()))
    await jobs.finish([decide(job, Cancelled()) for job in live])


@pytest.mark.parametrize("skips", [2, 3, 4])
async def test_a_cascade_that_is_cut_off_at_its_last_nodes_ends_the_flow(
    scene: Scene, skips: int
) -> None:
    graph: dict[str, Waits] = {"a": [], **{f"b{n}": ["a"] for n in range(skips)}}
    with cut_off_at(3):
        trip = await Trip.begin(scene, graph)
        await trip.end("a", end=FAILED)
        assert (await trip.info()).state is FlowState.FAILED, "no node is live"
        await do_errands(scene)
    assert (await trip.info()).state is FlowState.FAILED


async def test_a_cancel_whose_doer_died_does_not_reach_what_runs_again(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    await trip.close()
    await cancel_all(trip)
    assert (await trip.info()).state is FlowState.CANCELLED
    assert await retry(trip, "a")
    await do_errands(scene)
    assert await trip.states() == {"a": "ready", "b": "blocked"}
    assert (await trip.info()).state is FlowState.RUNNING


@pytest.mark.parametrize("what", ["close", "losers"])
async def test_nothing_runs_again_while_a_live_flow_owes_cancels(scene: Scene, what: str) -> None:
    graph: dict[str, Waits] = {"a": [], "b": [], "c": any_of("a", "b", cancel=True)}
    graph |= {"d": [], "e": ["c", "d"]}
    trip = await Trip.begin(scene, graph)
    await trip.end("b", end=FAILED)
    if what == "close":
        await trip.close(CloseWhat.BLOCKED)
    else:
        await trip.end("a")
    assert not await retry(trip, "b")
    await do_errands(scene)
    assert await retry(trip, "b")
    await do_errands(scene)
    assert (await trip.states())["b"] == "ready"


async def test_gates_that_are_added_again_are_not_doubled(scene: Scene) -> None:
    """A map that dies behind its last growth adds the gates of its joins a second time."""
    trip = await Trip.begin(scene, {"a": [], "z": ["a"]})
    claimed = await scene.claim_one()
    assert await scene.store.flows.extend([grown(trip, claimed, {"b": []})]) == [Grown.GROWN]
    gates = grown(trip, claimed, {}, z=["b"])
    assert await scene.store.flows.extend([gates, gates]) == [Grown.GROWN, Grown.GROWN]
    assert await scene.store.flows.extend([gates]) == [Grown.GROWN]
    assert len((await trip.nodes())["z"].gates) == 2
    assert len(await scene.store.flows.graph(trip.id)) == 3
    await trip.end("b", end=FAILED)
    assert (await trip.states())["z"] == "skipped"
    assert await scene.store.flows.extend([gates]) == [Grown.GROWN], "it was there before z ended"


@pytest.mark.parametrize("need", [-1, 0, 3])
def test_a_gate_that_no_end_decides_cannot_be_written(need: int) -> None:
    edges = (NewEdge(new_job_id()), NewEdge(new_job_id()))
    with pytest.raises(BadFlow, match=f"between 1 and 2 of its 2 edges, got {need}"):
        NewGate(need, edges)


@pytest.mark.parametrize("name", ["plain", "d'Artagnan", 'the "second"', "Zoë \\ 50%"])
async def test_the_reason_of_a_skip_names_the_upstream_alike_on_every_store(
    scene: Scene, name: str
) -> None:
    trip = await Trip.begin(scene, {name: [], "b": [name]})
    await trip.end(name, end=FAILED)
    assert (await trip.nodes())["b"].reason == f"'{name}' is failed"


@dataclass(frozen=True)
class PassingBy:
    """The jobs of a store which finds these jobs locked, as `finish` may."""

    jobs: Any
    locked: set[JobId]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.jobs, name)

    async def finish(self, moves: Sequence[Transition]) -> list[Verdict]:
        free = [move for move in moves if move.id not in self.locked]
        held = [Verdict(m.id, False, m.source, m.fence) for m in moves if m.id in self.locked]
        return [*await self.jobs.finish(free), *held]


@pytest.mark.parametrize("what", [CloseWhat.ALL, CloseWhat.BLOCKED])
async def test_a_cancel_that_did_not_reach_every_node_is_still_owed(
    scene: Scene, what: CloseWhat
) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"], "c": ["b"]})
    await trip.close(what)
    store, flows = scene.store, scene.store.flows
    [errand] = await flows.errands(10)
    locked = {trip.ids["b"]}
    passing_by: Any = SimpleNamespace(jobs=PassingBy(store.jobs, locked), flows=flows)
    assert not await do_errand(passing_by, errand)
    assert await flows.errands(10) == [errand]
    locked.clear()
    assert await do_errand(passing_by, errand)
    assert await flows.errands(10) == []
    states = await trip.states()
    assert (states["b"], states["c"]) == ("cancelled", "cancelled")


async def test_losers_that_were_not_reached_are_cancelled_later(scene: Scene) -> None:
    race: dict[str, Waits] = {"a": [], "y": [], "b": ["y"], "won": any_of("a", "b", cancel=True)}
    trip = await Trip.begin(scene, race)
    await trip.end("a")
    store, flows = scene.store, scene.store.flows
    [errand] = await flows.errands(10)
    locked = {trip.ids["b"]}
    passing_by: Any = SimpleNamespace(jobs=PassingBy(store.jobs, locked), flows=flows)
    assert not await do_errand(passing_by, errand)
    locked.clear()
    await do_errands(scene)
    assert (await trip.states())["b"] == "cancelled"
    assert await flows.errands(10) == []
