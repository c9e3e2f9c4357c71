"""Flows that a job has called: any number of them, kept and removed with the job."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.flow.ids import child_flow_id, new_node_id
from holdfast.flow.model import ErrandKind, FlowId, Reopening
from holdfast.job.ends import Cancelled, End, Returned
from holdfast.job.ids import JobId
from holdfast.job.record import Claimed, Live
from tests.conformance.builders import FAILED, RETURNED, Scene, new_job
from tests.support.flows import KEEP, Trip

NODES = "nodes"
LATER = 1_000_000


async def calls(scene: Scene, parent: Claimed | Live, **options: Any) -> Trip:
    """A flow of one node that the job has called; it is kept as long as the job."""
    options.setdefault("id", FlowId(new_node_id(FlowId(parent.id))))
    options.setdefault("keep", {})
    return await Trip.begin(
        scene,
        {"a": []},
        parent=parent.id,
        fence=parent.fence,
        node_options={"a": {"queue": NODES}},
        **options,
    )


async def end(scene: Scene, trip: Trip, how: End = RETURNED) -> None:
    await scene.claim(10, NODES)
    [node] = await scene.store.jobs.live([trip.ids["a"]])
    assert (await scene.finish(node, how)).accepted
    await scene.store.flows.done([one.id for one in await scene.store.flows.errands(100)])


async def running(scene: Scene) -> Claimed:
    await scene.enqueue()
    return await scene.claim_one()


async def flows_left(scene: Scene, *trips: Trip) -> list[bool]:
    found = {flow.id for flow in await scene.store.flows.get([trip.id for trip in trips])}
    return [trip.id in found for trip in trips]


async def over(scene: Scene, job: JobId, how: End = RETURNED) -> None:
    assert (await scene.finish(await scene.live(job), how)).accepted


async def test_a_job_lists_the_flows_that_it_has_started(scene: Scene) -> None:
    parent, other = await running(scene), await running(scene)
    first, second = await calls(scene, parent), await calls(scene, parent)
    whole = await calls(scene, other, id=child_flow_id(other.id), keep=KEEP)
    found = await scene.store.flows.children([other.id, parent.id, new_job().id])
    assert found == {parent.id: sorted([first.id, second.id]), other.id: [whole.id]}
    assert await scene.store.flows.children([]) == {}


@pytest.mark.parametrize("how", [RETURNED, FAILED, Cancelled()])
async def test_the_end_of_a_job_owes_the_cancel_of_each_flow_that_is_live(
    scene: Scene, how: End
) -> None:
    parent = await running(scene)
    over_already, first, second = [await calls(scene, parent) for _ in range(3)]
    [node] = [one for one in await scene.claim(10, NODES) if one.id == over_already.ids["a"]]
    await scene.finish(node)
    await scene.store.flows.done([one.id for one in await scene.store.flows.errands(100)])
    await over(scene, parent.id, how)
    owed = {(one.flow, one.kind, one.job) for one in await scene.store.flows.errands(100)}
    assert owed == {(trip.id, ErrandKind.ORPHAN, parent.id) for trip in (first, second)}


async def test_what_was_called_is_kept_as_long_as_its_caller(scene: Scene) -> None:
    parent = await running(scene)
    trip = await calls(scene, parent)
    await end(scene, trip)
    await over(scene, parent.id)
    scene.clock.advance(LATER)
    assert await scene.store.flows.prune(10) == 0
    assert (await trip.info()).expires_at is None
    assert await scene.store.jobs.delete([parent.id]) == [parent.id]
    assert await scene.store.flows.prune(10) == 1
    assert await flows_left(scene, trip) == [False]
    assert await scene.store.jobs.get([trip.ids["a"]]) == []
    assert await scene.store.flows.children([parent.id]) == {}


@pytest.mark.parametrize("verb", ["delete", "requeue"])
async def test_a_job_lists_what_it_had_called_until_that_is_removed(
    scene: Scene, verb: str
) -> None:
    parent = await running(scene)
    trip = await calls(scene, parent)
    await over(scene, parent.id, FAILED)
    act = scene.store.jobs.delete if verb == "delete" else scene.store.jobs.requeue
    assert await act([parent.id]) == [parent.id]
    assert await scene.store.flows.children([parent.id]) == {parent.id: [trip.id]}
    await end(scene, trip)
    assert await scene.store.flows.prune(10) == 1
    assert await scene.store.flows.children([parent.id]) == {}


async def test_what_was_called_goes_when_its_caller_is_pruned(scene: Scene) -> None:
    parent, other = await running(scene), await running(scene)
    trip, of_other = await calls(scene, parent), await calls(scene, other)
    await end(scene, trip)
    await over(scene, parent.id)
    scene.clock.advance(LATER)
    assert await scene.store.jobs.prune(10) == 1
    assert await scene.store.flows.prune(10) == 1
    assert await flows_left(scene, trip, of_other) == [False, True]


async def test_what_still_runs_goes_when_it_has_ended(scene: Scene) -> None:
    parent = await running(scene)
    trip = await calls(scene, parent)
    await over(scene, parent.id)
    await scene.store.jobs.delete([parent.id])
    assert await scene.store.flows.prune(10) == 0
    await end(scene, trip, FAILED)
    assert await scene.store.flows.prune(10) == 1


@pytest.mark.parametrize("id_of", ["a call", "a whole life"])
async def test_a_flow_with_a_time_of_its_own_stays_for_that_time(scene: Scene, id_of: str) -> None:
    parent = await running(scene)
    chosen = {} if id_of == "a call" else {"id": child_flow_id(parent.id)}
    trip = await calls(scene, parent, keep=KEEP, **chosen)
    await end(scene, trip)
    await over(scene, parent.id)
    await scene.store.jobs.delete([parent.id])
    assert await scene.store.flows.prune(10) == 0
    scene.clock.advance(LATER)
    assert await scene.store.flows.prune(10) == 1


async def test_a_requeue_begins_without_what_was_called(scene: Scene) -> None:
    parent = await running(scene)
    trip = await calls(scene, parent)
    await end(scene, trip)
    await over(scene, parent.id, FAILED)
    assert await scene.store.jobs.requeue([parent.id]) == [parent.id]
    assert await scene.store.flows.prune(10) == 1
    again = await calls(scene, await scene.claim_one())
    assert await scene.store.flows.children([parent.id]) == {parent.id: [again.id]}


async def test_a_node_that_runs_again_begins_without_what_it_called(scene: Scene) -> None:
    outer = await Trip.begin(scene, {"p": []})
    parent = await scene.claim_one()
    trip = await calls(scene, parent)
    await end(scene, trip)
    await over(scene, parent.id, FAILED)
    plan = Reopening(flow=outer.id, epoch=(await outer.info()).epoch, ready=(parent.id,))
    assert await scene.store.flows.reopen([plan]) == [outer.id]
    assert await scene.store.flows.prune(10) == 1
    assert await flows_left(scene, outer, trip) == [True, False]


async def test_what_was_called_by_what_was_called_goes_after_it(scene: Scene) -> None:
    parent = await running(scene)
    trip = await calls(scene, parent)
    [node] = await scene.claim(10, NODES)
    inner = await calls(scene, node)
    await end(scene, inner)
    await over(scene, node.id, Returned("1"))
    await scene.store.flows.done([one.id for one in await scene.store.flows.errands(100)])
    await over(scene, parent.id)
    scene.clock.advance(LATER)
    assert await scene.store.flows.prune(10) == 0
    await scene.store.jobs.delete([parent.id])
    assert await scene.store.flows.prune(10) == 1
    assert await flows_left(scene, trip, inner) == [False, True]
    assert await scene.store.flows.prune(10) == 1
    assert await flows_left(scene, inner) == [False]
