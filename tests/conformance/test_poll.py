"""A poll says in one look what a worker may not have been woken for."""

from __future__ import annotations

import pytest

from holdfast.flow.model import CloseWhat
from holdfast.job.ends import WasSuspended, WorkerLost
from holdfast.store.contract.workers import LATELY, News
from tests.conformance.builders import QUEUE, RAISED, TASK, Scene, new_worker
from tests.conformance.planning import definition
from tests.support.flows import new_flow


async def polled(scene: Scene) -> News:
    return await scene.store.workers.poll(scene.worker, [QUEUE, "mail"], [TASK])


async def test_an_empty_store_has_no_news(scene: Scene) -> None:
    assert await polled(scene) == News(False, None, 0, 0, 1)


@pytest.mark.parametrize(("queue", "told"), [(QUEUE, True), ("mail", True), ("other", False)])
async def test_a_poll_tells_of_ready_jobs_in_its_queues(
    scene: Scene, queue: str, told: bool
) -> None:
    await polled(scene)
    await scene.enqueue(queue=queue)
    assert (await polled(scene)).ready is told


async def test_a_poll_no_longer_tells_of_a_job_that_was_claimed(scene: Scene) -> None:
    await scene.running()
    assert not (await polled(scene)).ready


async def test_a_poll_tells_when_the_next_job_is_due(scene: Scene) -> None:
    await scene.enqueue(delay=30.0)
    await scene.enqueue(delay=20.0)
    assert (await polled(scene)).due_in == pytest.approx(20.0, abs=0.001)
    scene.clock.advance(25)
    assert (await polled(scene)).due_in == pytest.approx(-5.0, abs=0.001)


async def test_a_poll_tells_when_a_retry_is_due(scene: Scene) -> None:
    await scene.ended(RAISED)
    assert (await polled(scene)).due_in == pytest.approx(10.0, abs=0.001)


async def test_a_poll_tells_when_a_timer_ends(scene: Scene) -> None:
    await scene.ended(WasSuspended(7.0))
    assert (await polled(scene)).due_in == pytest.approx(7.0, abs=0.001)


async def test_a_poll_tells_when_a_deadline_passes(scene: Scene) -> None:
    await scene.enqueue(deadline_in=15.0)
    assert (await polled(scene)).due_in == pytest.approx(15.0, abs=0.001)


async def test_what_is_overdue_for_long_is_left_to_the_sweeps(scene: Scene) -> None:
    await scene.enqueue(delay=1.0)
    await scene.enqueue(delay=500.0)
    scene.clock.advance(LATELY + 2)
    assert (await polled(scene)).due_in == pytest.approx(500.0 - LATELY - 2, abs=0.001)


async def test_the_number_of_cancels_grows_for_the_worker_that_is_asked(scene: Scene) -> None:
    claimed = await scene.running()
    before = await polled(scene)
    await scene.store.jobs.request_cancel([claimed.id])
    after = await polled(scene)
    other = await scene.store.workers.poll(new_worker().id, [QUEUE], [TASK])
    assert after.cancels > before.cancels == other.cancels == 0


async def test_a_worker_that_left_leaves_no_number_behind(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.store.jobs.request_cancel([claimed.id])
    await scene.store.workers.deregister(scene.worker)
    await scene.store.jobs.request_cancel([claimed.id])
    assert (await polled(scene)).cancels == 0


async def test_the_number_of_schedules_grows_with_every_change(scene: Scene) -> None:
    schedules, seen = scene.store.schedules, [(await polled(scene)).schedules]
    await schedules.declare({"nightly": definition()})
    seen.append((await polled(scene)).schedules)
    await schedules.put("weekly", definition())
    seen.append((await polled(scene)).schedules)
    for verb in (schedules.pause, schedules.resume, schedules.delete):
        await verb(["nightly"])
        seen.append((await polled(scene)).schedules)
    assert seen == sorted(set(seen))


async def test_a_declaration_of_nothing_new_is_no_change(scene: Scene) -> None:
    await scene.store.schedules.declare({"nightly": definition()})
    before = await polled(scene)
    await scene.store.schedules.declare({"nightly": definition()})
    assert (await polled(scene)).schedules == before.schedules


async def test_a_poll_counts_the_live_workers(scene: Scene) -> None:
    await scene.hire(lease=5)
    assert (await polled(scene)).replicas == 2
    scene.clock.advance(6)
    await scene.hire(lease=5)
    assert (await polled(scene)).replicas == 2


async def test_a_poll_tells_of_a_worker_whose_lease_has_lapsed(scene: Scene) -> None:
    """Time alone brings it: nothing was written since the poll before."""
    await scene.hire(lease=5)
    assert not (await polled(scene)).lapsed
    scene.clock.advance(6)
    assert (await polled(scene)).lapsed


async def test_a_poll_no_longer_tells_of_a_lapsed_worker_that_was_swept(scene: Scene) -> None:
    worker = await scene.hire(lease=5)
    claimed = await scene.running(worker=worker)
    scene.clock.advance(66)
    await scene.store.workers.sweep(10, 60.0)
    assert (await polled(scene)).lapsed, "it holds a job"
    await scene.reclaim(await scene.live(claimed.id), WorkerLost())
    await scene.store.workers.sweep(10, 60.0)
    assert not (await polled(scene)).lapsed


async def test_a_poll_tells_while_flows_owe_something(scene: Scene) -> None:
    assert not (await polled(scene)).errands
    flow = new_flow({"a": []})
    await scene.store.flows.start([flow])
    await scene.store.flows.close([flow.id], CloseWhat.ALL)
    assert (await polled(scene)).errands
    await scene.store.flows.done([one.id for one in await scene.store.flows.errands(10)])
    assert not (await polled(scene)).errands
