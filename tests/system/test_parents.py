"""What ends a parent when its flow is over, with a clock that the test moves."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.clock import ManualClock
from holdfast.events import Event
from holdfast.flow.graph import encode_graph
from holdfast.flow.ids import child_flow_id
from holdfast.flow.model import FlowState
from holdfast.flow.parents import STRANDED_AFTER, WAITS_FOR_FLOW
from holdfast.insights.diagnosis import PROBLEM
from holdfast.insights.flow_checks import check_parents
from holdfast.job.ends import Cancelled, HandedBack, Returned, WasSuspended
from holdfast.job.ids import JobId
from holdfast.job.record import Claimed
from holdfast.job.state import JobState
from holdfast.reconcile.errands import ErrandsReconciler
from holdfast.reconcile.parent_drift import ParentDriftReconciler
from holdfast.store.contract.store import Store
from tests.conformance.builders import Scene
from tests.support.flows import new_flow
from tests.support.reconcile_scene import PoisonedJobs, made, with_jobs

NODES = "nodes"
WAITS = WasSuspended(None, f"{WAITS_FOR_FLOW} of its own")
LATER = STRANDED_AFTER.total_seconds() + 1


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> Scene:
    return await Scene.on(store, clock)


async def started(scene: Scene) -> Claimed:
    """A running parent with a flow of one node."""
    await scene.enqueue()
    parent = await scene.claim_one()
    flow = new_flow(
        {"a": []},
        id=child_flow_id(parent.id),
        parent=parent.id,
        fence=parent.fence,
        node_options={"a": {"queue": NODES}},
    )
    graph = encode_graph(flow.nodes, returns="a")
    await scene.store.flows.start([msgspec.structs.replace(flow, graph=graph)])
    return parent


async def over(scene: Scene, parent: JobId) -> None:
    [node] = await scene.claim(10, NODES)
    assert (await scene.finish(node, Returned("7"))).accepted
    [flow] = await scene.store.flows.get([child_flow_id(parent)])
    assert flow.state is FlowState.SUCCEEDED


async def stranded(scene: Scene) -> JobId:
    """A parent that waits for a flow that is over, and nobody owes its end."""
    parent = await started(scene)
    assert (await scene.finish(await scene.live(parent.id), WAITS)).accepted
    await over(scene, parent.id)
    await scene.store.flows.done([one.id for one in await scene.store.flows.errands(10)])
    return parent.id


async def test_an_errand_ends_a_suspended_parent_once(scene: Scene) -> None:
    parent = await started(scene)
    assert (await scene.finish(await scene.live(parent.id), WAITS)).accepted
    await over(scene, parent.id)
    errands = made(ErrandsReconciler, scene.store)
    assert (await errands.run_once()).mended == 1
    job = await scene.job(parent.id)
    assert (job.state, job.result, job.attempts) == (JobState.SUCCEEDED, 7, 1)
    assert (await errands.run_once()).found == 0


async def test_an_errand_is_kept_while_the_parent_is_about_to_wait(scene: Scene) -> None:
    """The flow was over before its parent was suspended."""
    parent = await started(scene)
    await over(scene, parent.id)
    errands = made(ErrandsReconciler, scene.store)
    swept = await errands.run_once()
    assert (swept.found, swept.mended) == (1, 0)
    assert (await scene.finish(await scene.live(parent.id), WAITS)).accepted
    assert (await errands.run_once()).mended == 1
    assert (await scene.job(parent.id)).state is JobState.SUCCEEDED


async def test_an_errand_leaves_a_parent_alone_that_will_ask_for_its_flow_itself(
    scene: Scene,
) -> None:
    parent = await started(scene)
    await over(scene, parent.id)
    await scene.finish(await scene.live(parent.id), HandedBack())
    assert (await made(ErrandsReconciler, scene.store).run_once()).mended == 1
    assert (await scene.job(parent.id)).state is JobState.READY
    assert await scene.store.flows.errands(10) == []


async def test_an_orphan_is_cancelled(scene: Scene) -> None:
    parent = await started(scene)
    assert (await scene.finish(await scene.live(parent.id), Cancelled())).accepted
    errands = made(ErrandsReconciler, scene.store)
    while (await errands.run_once()).mended:
        pass
    [flow] = await scene.store.flows.get([child_flow_id(parent.id)])
    assert flow.state is FlowState.CANCELLED
    assert await scene.store.flows.errands(10) == []


async def test_a_stranded_parent_is_found_by_the_doctor_and_mended_by_the_net(
    scene: Scene,
) -> None:
    parent = await stranded(scene)
    seen: list[Event] = []
    net = made(ParentDriftReconciler, scene.store, seen)
    assert (await net.run_once()).found == 0, "an errand may still be on its way"
    scene.clock.advance(LATER)
    [diagnosis] = await check_parents(scene.store)
    assert diagnosis.severity is PROBLEM
    assert parent in diagnosis.saw
    swept = await net.run_once()
    assert (swept.found, swept.mended) == (1, 1)
    assert "flow.parent_stranded" in [event.name for event in seen]
    assert (await scene.job(parent)).state is JobState.SUCCEEDED
    assert (await net.run_once()).found == 0
    assert await check_parents(scene.store) == []


async def test_a_parent_whose_flow_is_gone_fails_and_says_so(scene: Scene) -> None:
    parent = await stranded(scene)
    scene.clock.advance(1_000_000)
    assert await scene.store.flows.prune(10) == 1
    assert (await made(ParentDriftReconciler, scene.store).run_once()).mended == 1
    job = await scene.job(parent)
    assert job.state is JobState.FAILED
    assert "is not there any more" in job.errors[0].message


async def test_a_job_that_only_sleeps_is_no_parent(scene: Scene) -> None:
    await scene.enqueue()
    await scene.finish(await scene.claim_one(), WasSuspended(None))
    scene.clock.advance(LATER)
    assert (await made(ParentDriftReconciler, scene.store).run_once()).found == 0
    assert await check_parents(scene.store) == []


async def test_the_net_looks_at_some_suspended_jobs_and_goes_on_behind_them(scene: Scene) -> None:
    """Many that sleep cost an idle worker no more than a few do. The newest are looked at first."""
    parent = await stranded(scene)
    for _ in range(4):
        await scene.enqueue()
        await scene.finish(await scene.claim_one(), WasSuspended(None))
    scene.clock.advance(LATER)
    net = made(ParentDriftReconciler, scene.store, batch=2)
    assert [(await net.run_once()).mended for _ in range(3)] == [0, 0, 1]
    assert (await scene.job(parent)).state is JobState.SUCCEEDED


async def test_one_parent_that_cannot_be_ended_does_not_hide_others(scene: Scene) -> None:
    parents = [await stranded(scene) for _ in range(3)]
    scene.clock.advance(LATER)
    poisoned = PoisonedJobs(scene.store.jobs, parents[:1])
    net = made(ParentDriftReconciler, with_jobs(scene.store, poisoned))
    swept = await net.run_once()
    assert (swept.found, swept.failed, swept.mended) == (3, 1, 2)
    states = await scene.states(parents)
    assert states == [JobState.SUSPENDED, JobState.SUCCEEDED, JobState.SUCCEEDED]
