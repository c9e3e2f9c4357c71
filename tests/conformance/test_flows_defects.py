"""Defects of other flow engines that are not repeated here, each on every store.

`tests/unit/test_flow_defects.py` lists all of them with the tests that show them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.background.cancelling import cancel_jobs
from holdfast.background.options import ReconcileOptions
from holdfast.events import Events
from holdfast.flow.errands import do_errand
from holdfast.flow.graph import Graph
from holdfast.flow.model import FlowState
from holdfast.flow.reopening import plan_retry
from holdfast.job.ends import DeadlinePassed, TimedOut, WasSuspended, WorkerLost
from holdfast.job.outcome import decide
from holdfast.job.state import JobState
from holdfast.reconcile.errands import ErrandsReconciler
from holdfast.store.contract.store import Store
from tests.conformance.builders import FAILED, RETURNED, Scene
from tests.support.flaky import FlakyStore, Line
from tests.support.flows import Trip, Waits, any_of, ended, quorum


async def do_errands(scene: Scene) -> None:
    for errand in await scene.store.flows.errands(100):
        await do_errand(scene.store, errand)


# What ends a node, whoever ends it


async def test_a_node_of_a_dead_worker_is_tried_again_and_its_zombie_decides_nothing(
    scene: Scene,
) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    worker = await scene.hire()
    zombie = await scene.claim_one(worker=worker)
    await scene.lose(worker)
    [lost] = await scene.store.jobs.lapsed_leases(10)
    assert (await scene.reclaim(lost, WorkerLost())).accepted
    assert not (await scene.finish(zombie)).accepted
    assert await trip.states() == {"a": "scheduled", "b": "blocked"}
    scene.clock.advance(60)
    await scene.store.jobs.promote_due(10)
    await trip.end("a")
    assert await trip.state("b") is JobState.READY


async def test_a_node_that_timed_out_is_tried_again_before_anybody_is_skipped(
    scene: Scene,
) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    claimed = await scene.claim_one()
    assert (await scene.finish(claimed, TimedOut(5))).accepted
    assert not (await scene.finish(claimed)).accepted, "it came after the timeout"
    assert await trip.states() == {"a": "scheduled", "b": "blocked"}


async def test_a_suspended_node_wakes_by_its_timer_and_its_flow_goes_on(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    assert (await scene.finish(await scene.claim_one(), WasSuspended(30.0))).accepted
    assert await trip.states() == {"a": "suspended", "b": "blocked"}
    scene.clock.advance(31)
    assert (await scene.store.jobs.promote_due(10)).count == 1
    await trip.end("a")
    assert await trip.state("b") is JobState.READY


async def test_a_delay_and_a_deadline_of_a_blocked_node_are_two_things(scene: Scene) -> None:
    dated = {"b": {"deadline_in": 100.0}}
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]}, node_options=dated, delays={"b": 200.0})
    scene.clock.advance(50)
    await trip.end("a")
    [waiting] = await scene.store.jobs.get([trip.ids["b"]])
    assert (waiting.state, waiting.due_at) == (JobState.SCHEDULED, scene.after(200))
    assert waiting.deadline_at == scene.after(50)
    scene.clock.advance(51)
    [late] = await scene.store.jobs.past_deadline(10)
    assert (await scene.finish(late, DeadlinePassed())).accepted
    assert (await trip.info()).state is FlowState.FAILED


# Cancels


async def test_a_cancel_of_a_flow_leaves_ended_nodes_as_they_are(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "c": ["a"], "d": ["c"]})
    await trip.end("a")
    await trip.end("b", end=FAILED)
    await trip.close()
    await do_errands(scene)
    [running] = await scene.store.jobs.live(list(trip.ids.values()))
    assert (running.id, running.cancel_requested) == (trip.ids["c"], True)
    await scene.finish(running, cancel_requested=True)
    states = await trip.states()
    assert (states["a"], states["b"], states["d"]) == ("succeeded", "failed", "cancelled")
    assert (await trip.info()).state is FlowState.CANCELLED


async def test_losers_go_and_what_only_they_need_goes_with_them(scene: Scene) -> None:
    """A waiting loser is cancelled and a running one told; one that another gate needs goes on, and
    ancestors that only losers need go too. A cancelled loser tells who waits for its end."""
    graph: dict[str, Waits] = {
        "quick": [],
        "running": [],
        "before": [],
        "waiting": ["before"],
        "needed": [],
        "first": any_of("quick", "running", "waiting", "needed", cancel=True),
        "other": ["needed"],
    }
    late = {"before": {"delay": 3_600.0}}
    trip = await Trip.begin(scene, graph, node_options=late)
    await trip.end("quick")
    await do_errands(scene)
    states = await trip.states()
    assert (states["before"], states["waiting"]) == ("cancelled", "cancelled")
    assert (states["running"], states["needed"]) == ("running", "running")
    assert (await scene.live(trip.ids["running"])).cancel_requested
    assert not (await scene.live(trip.ids["needed"])).cancel_requested
    assert states["other"] == "blocked"


async def test_who_waits_for_the_end_of_a_cancelled_node_goes_on(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ended("a"), "c": ["a"]})
    await do_cancel(scene, trip, "a")
    assert await trip.states() == {"a": "cancelled", "b": "ready", "c": "skipped"}


async def do_cancel(scene: Scene, trip: Trip, name: str) -> None:
    assert await cancel_jobs(scene.store.jobs, [trip.ids[name]]) == [trip.ids[name]]


async def test_an_impossible_gate_cancels_nobody(scene: Scene) -> None:
    most = quorum(2, "a", "b", "c", cancel=True)
    trip = await Trip.begin(scene, {"a": [], "b": [], "c": [], "d": most})
    await trip.end("a", "b", end=FAILED)
    assert await trip.states() == {"a": "failed", "b": "failed", "c": "running", "d": "skipped"}
    assert await scene.store.flows.errands(10) == []


# Sweeps


async def test_an_errand_that_fails_hides_no_other(scene: Scene) -> None:
    trips = [await Trip.begin(scene, {"a": [], "b": ["a"]}) for _ in range(5)]
    for trip in trips:
        await trip.close()
    poison = trips[0].id
    reconciler = ErrandsReconciler(
        Poisoned(scene.store, poison), Events(), ReconcileOptions(batch=2)
    )
    swept = await reconciler.run_once()
    assert (swept.found, swept.mended, swept.failed) == (5, 4, 1)
    ends = [(await trip.info()).state for trip in trips]
    assert ends == [FlowState.CANCELLING, *[FlowState.CANCELLED] * 4]
    assert [one.flow for one in await scene.store.flows.errands(10)] == [poison]


class Poisoned(FlakyStore):
    """Nobody can read the nodes of one flow."""

    def __init__(self, store: Store, flow: str) -> None:
        super().__init__(store, Line())
        nodes = self.flows.nodes

        async def read(of: str, *rest: Any) -> Any:
            if of == flow:
                raise ValueError("poison")
            return await nodes(of, *rest)

        self.flows.nodes = read


# Retries


async def test_a_retry_in_a_flow_of_twenty_nodes_does_what_its_preview_says(scene: Scene) -> None:
    """Two branches of eight behind one root, joined at the end; the fourth of one branch fails."""
    graph: dict[str, Waits] = {"root": []}
    for letter in "ab":
        names = [f"{letter}{number}" for number in range(9)]
        graph |= {name: [before] for before, name in zip(["root", *names], names, strict=False)}
    graph["end"] = ["a8", "b8"]
    trip = await Trip.begin(scene, graph)
    await run_all(trip, "b3")
    before = {name: node.finished_at for name, node in (await trip.nodes()).items()}
    fences = await fences_of(trip)
    nodes = list((await trip.nodes()).values())
    graph_of = Graph(await scene.store.flows.graph(trip.id))
    plan = plan_retry(await trip.info(), graph_of, nodes)
    behind = [f"b{number}" for number in range(4, 9)]
    assert (plan.again, plan.wait) == (("b3",), (*behind, "end"))
    assert set(plan.kept) == graph.keys() - {"b3", *behind, "end"}
    scene.clock.advance(60)
    assert await scene.store.flows.reopen([plan.reopening]) == [trip.id]
    await run_all(trip)
    now = await fences_of(trip)
    ran_again = {name for name, fence in now.items() if fence != fences[name]}
    assert ran_again == {*plan.again, *plan.wait}
    after = await trip.nodes()
    assert {name for name in graph if after[name].finished_at != before[name]} == ran_again
    assert (await trip.info()).state is FlowState.SUCCEEDED


async def run_all(trip: Trip, *failing: str) -> None:
    """Claim and end nodes until none is ready."""
    names = {job: name for name, job in trip.ids.items()}
    while claimed := await trip.scene.claim(100):
        moves = [decide(job, FAILED if names[job.id] in failing else RETURNED) for job in claimed]
        await trip.scene.store.jobs.finish(moves)


async def fences_of(trip: Trip) -> dict[str, int]:
    jobs: Sequence[Any] = await trip.scene.store.jobs.get(list(trip.ids.values()))
    fences = {job.id: job.fence for job in jobs}
    return {name: fences[job] for name, job in trip.ids.items()}
