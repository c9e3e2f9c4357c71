"""Flows with a parent: started by a running job, which ends with its flow, and its flow with it."""

from __future__ import annotations

import pytest

from holdfast.flow.ids import child_flow_id
from holdfast.flow.model import CloseWhat, Errand, ErrandKind, FlowState, Reopening
from holdfast.job.ends import Cancelled, DeadlinePassed, End, Raised, Returned, WasSuspended
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.record import Claimed, Live
from holdfast.job.state import JobState
from holdfast.job.ties import Tie
from holdfast.job.unique import Unique
from tests.conformance.builders import FAILED, QUEUE, RETURNED, Scene, new_job
from tests.conformance.planning import Diary
from tests.support.flows import Trip, new_flow

WAITS = WasSuspended(None, "waits for its flow")
NODES = "nodes"
"""The queue of the child's nodes, so that a claim of the parent's queue finds the parent alone."""


async def begin(scene: Scene, parent: Claimed | Live) -> Trip:
    """A child of one node."""
    flow = child_flow_id(parent.id)
    options = {"a": {"queue": NODES}}
    return await Trip.begin(
        scene, {"a": []}, id=flow, parent=parent.id, fence=parent.fence, node_options=options
    )


async def suspended(scene: Scene) -> tuple[Live, Trip]:
    """A parent that waits for its flow."""
    await scene.enqueue()
    parent = await scene.claim_one()
    trip = await begin(scene, parent)
    assert (await scene.finish(await scene.live(parent.id), WAITS)).accepted
    return await scene.live(parent.id), trip


async def end_child(scene: Scene, trip: Trip, end: End = RETURNED) -> None:
    await scene.claim(10, NODES)
    [node] = await scene.store.jobs.live([trip.ids["a"]])
    assert (await scene.finish(node, end)).accepted


async def errands(scene: Scene) -> list[tuple[str, ErrandKind, JobId | None]]:
    found: list[Errand] = await scene.store.flows.errands(100)
    return [(errand.flow, errand.kind, errand.job) for errand in found]


async def test_a_flow_is_started_by_its_running_parent_which_is_tied_to_it(scene: Scene) -> None:
    await scene.enqueue()
    parent = await scene.claim_one()
    assert not parent.ties & Tie.PARENT
    trip = await begin(scene, parent)
    assert (await trip.info()).parent == parent.id
    assert (await scene.live(parent.id)).ties & Tie.PARENT
    assert (await scene.job(parent.id)).ties & Tie.PARENT


@pytest.mark.parametrize("how", ["an older fence", "handed back", "ended", "unknown"])
async def test_a_flow_is_not_started_for_a_parent_that_does_not_run_it(
    scene: Scene, how: str
) -> None:
    await scene.enqueue()
    parent = await scene.claim_one()
    if how == "ended":
        await scene.finish(parent)
    if how == "handed back":
        await scene.finish(parent, WAITS)
    job = new_job().id if how == "unknown" else parent.id
    fence = parent.fence - 1 if how == "an older fence" else parent.fence
    flow = new_flow({"a": []}, id=child_flow_id(job), parent=job, fence=fence)
    [started] = await scene.store.flows.start([flow])
    assert started.how == "not held"
    assert await scene.store.flows.get([flow.id]) == []
    assert await scene.store.jobs.get([flow.nodes[0].job.id]) == []


async def test_a_start_is_repeated_also_when_the_parent_has_given_its_slot_back(
    scene: Scene,
) -> None:
    parent, trip = await suspended(scene)
    other = new_flow({"b": []}, id=trip.id, parent=parent.id, fence=parent.fence)
    for flow in (trip.flow, other):
        [started] = await scene.store.flows.start([flow])
        assert (started.id, started.how) == (trip.id, "created")
    assert await trip.states() == {"a": "ready"}


async def test_flows_with_and_without_parents_are_started_in_one_call(scene: Scene) -> None:
    await scene.enqueue()
    parent = await scene.claim_one()
    nobody = new_job().id
    flows = [
        new_flow({"a": []}),
        new_flow({"a": []}, id=child_flow_id(parent.id), parent=parent.id, fence=parent.fence),
        new_flow({"a": []}, id=child_flow_id(nobody), parent=nobody, fence=1),
    ]
    started = await scene.store.flows.start(flows)
    assert [one.how for one in started] == ["created", "created", "not held"]


@pytest.mark.parametrize("end", [RETURNED, FAILED, Cancelled()])
async def test_the_end_of_a_flow_owes_the_end_of_its_parent(scene: Scene, end: End) -> None:
    parent, trip = await suspended(scene)
    assert await errands(scene) == []
    await end_child(scene, trip, end)
    assert await errands(scene) == [(trip.id, ErrandKind.PARENT, parent.id)]


async def test_the_end_of_a_flow_without_a_parent_owes_nothing(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": []})
    await trip.end("a")
    assert await errands(scene) == []


async def test_a_flow_that_is_reopened_owes_the_end_of_its_parent_again(scene: Scene) -> None:
    parent, trip = await suspended(scene)
    await end_child(scene, trip, FAILED)
    await scene.store.flows.done([one.id for one in await scene.store.flows.errands(10)])
    epoch = (await trip.info()).epoch
    plan = Reopening(flow=trip.id, epoch=epoch, ready=(trip.ids["a"],))
    assert await scene.store.flows.reopen([plan]) == [trip.id]
    await end_child(scene, trip)
    assert await errands(scene) == [(trip.id, ErrandKind.PARENT, parent.id)]


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (Returned("42"), JobState.SUCCEEDED),
        (Raised("ChildFlowFailed", "it failed", final=True), JobState.FAILED),
        (Cancelled("its flow was cancelled"), JobState.CANCELLED),
    ],
)
async def test_a_suspended_parent_ends_as_its_flow(scene: Scene, end: End, state: JobState) -> None:
    parent, trip = await suspended(scene)
    await end_child(scene, trip)
    verdict = await scene.finish(parent, end)
    assert verdict.accepted
    job = await scene.job(parent.id)
    assert (job.state, job.attempts) == (state, 0 if state is JobState.CANCELLED else 1)
    assert job.result == (42 if state is JobState.SUCCEEDED else None)
    assert job.finished_at == scene.clock.now
    assert job.expires_at is not None
    assert not (await scene.finish(parent, end)).accepted
    assert ErrandKind.ORPHAN not in [kind for _, kind, _ in await errands(scene)]


@pytest.mark.parametrize("end", [Cancelled(), DeadlinePassed(), FAILED])
async def test_the_end_of_a_suspended_parent_owes_the_cancel_of_its_live_flow(
    scene: Scene, end: End
) -> None:
    parent, trip = await suspended(scene)
    assert (await scene.finish(parent, end)).accepted
    assert await errands(scene) == [(trip.id, ErrandKind.ORPHAN, parent.id)]
    assert (await trip.info()).state is FlowState.RUNNING


async def test_the_end_of_a_running_parent_owes_the_cancel_of_its_live_flow(scene: Scene) -> None:
    await scene.enqueue()
    parent = await scene.claim_one()
    trip = await begin(scene, parent)
    assert (await scene.finish(await scene.live(parent.id), FAILED)).accepted
    assert await errands(scene) == [(trip.id, ErrandKind.ORPHAN, parent.id)]


async def test_an_end_that_was_decided_before_the_start_owes_the_cancel_of_the_flow_too(
    scene: Scene,
) -> None:
    """Whoever times an attempt out may have read the job before it was tied to its flow."""
    await scene.enqueue()
    parent = await scene.claim_one()
    before = await scene.live(parent.id)
    trip = await begin(scene, parent)
    assert not before.ties & Tie.PARENT
    assert (await scene.finish(before, FAILED)).accepted
    assert await errands(scene) == [(trip.id, ErrandKind.ORPHAN, parent.id)]


async def test_a_cancel_that_was_asked_of_a_parent_before_it_waits_owes_the_cancel_of_its_flow(
    scene: Scene,
) -> None:
    await scene.enqueue()
    parent = await scene.claim_one()
    trip = await begin(scene, parent)
    await scene.store.jobs.request_cancel([parent.id])
    assert (await scene.finish(await scene.live(parent.id), WAITS)).accepted
    assert (await scene.job(parent.id)).state is JobState.CANCELLED
    assert await errands(scene) == [(trip.id, ErrandKind.ORPHAN, parent.id)]


async def test_a_parent_that_is_replaced_by_its_unique_key_owes_the_cancel_of_its_flow(
    scene: Scene,
) -> None:
    await scene.enqueue(unique=Unique("k", on_conflict="replace"))
    parent = await scene.claim_one()
    trip = await begin(scene, parent)
    assert (await scene.finish(await scene.live(parent.id), WAITS)).accepted
    await scene.enqueue(unique=Unique("k", on_conflict="replace"))
    assert (await scene.job(parent.id)).state is JobState.CANCELLED
    assert await errands(scene) == [(trip.id, ErrandKind.ORPHAN, parent.id)]


async def test_a_parent_that_a_plan_replaces_owes_the_cancel_of_its_flow(scene: Scene) -> None:
    diary = await Diary.of(scene)
    job = await diary.started(0, job={"queue": QUEUE})
    parent = await scene.claim_one()
    assert parent.id == job
    trip = await begin(scene, parent)
    assert (await scene.finish(await scene.live(parent.id), WAITS)).accepted
    plan = diary.plan(1, job=diary.job(), cancel=(job,))
    assert await diary.record(plan) == [True]
    assert (await scene.job(parent.id)).state is JobState.CANCELLED
    assert await errands(scene) == [(trip.id, ErrandKind.ORPHAN, parent.id)]


async def test_a_flow_is_kept_until_its_parent_has_been_ended(scene: Scene) -> None:
    _, trip = await suspended(scene)
    await end_child(scene, trip)
    scene.clock.advance(1_000_000)
    assert await scene.store.flows.prune(10) == 0
    assert (await trip.info()).state is FlowState.SUCCEEDED
    await scene.store.flows.done([one.id for one in await scene.store.flows.errands(10)])
    assert await scene.store.flows.prune(10) == 1
    assert await scene.store.flows.get([trip.id]) == []


async def test_a_node_may_be_the_parent_of_another_flow(scene: Scene) -> None:
    outer = await Trip.begin(scene, {"p": [], "z": ["p"]})
    parent = await scene.claim_one()
    trip = await begin(scene, parent)
    assert (await scene.finish(await scene.live(parent.id), WAITS)).accepted
    assert await outer.states() == {"p": "suspended", "z": "blocked"}
    await end_child(scene, trip)
    assert (await scene.finish(await scene.live(parent.id), Returned("1"))).accepted
    assert await outer.states() == {"p": "succeeded", "z": "ready"}
    assert await errands(scene) == [(trip.id, ErrandKind.PARENT, parent.id)]


async def test_the_cancel_of_an_outer_flow_reaches_the_flow_of_its_node(scene: Scene) -> None:
    outer = await Trip.begin(scene, {"p": []})
    parent = await scene.claim_one()
    trip = await begin(scene, parent)
    assert (await scene.finish(await scene.live(parent.id), WAITS)).accepted
    await outer.close(CloseWhat.ALL)
    assert (await scene.finish(await scene.live(parent.id), Cancelled())).accepted
    assert (trip.id, ErrandKind.ORPHAN, parent.id) in await errands(scene)
    assert (await outer.info()).state is FlowState.CANCELLED


async def test_both_may_end_in_one_batch(scene: Scene) -> None:
    """The flow and its parent meet: whichever is written first, both have ended."""
    parent, trip = await suspended(scene)
    await scene.claim(10, NODES)
    [node] = await scene.store.jobs.live([trip.ids["a"]])
    moves = [decide(parent, Cancelled()), decide(node, RETURNED)]
    verdicts = await scene.store.jobs.finish(moves)
    assert [verdict.accepted for verdict in verdicts] == [True, True]
    assert (await trip.info()).state is FlowState.SUCCEEDED
    assert (await scene.job(parent.id)).state is JobState.CANCELLED
