"""One job that cannot be mended neither blocks nor floods a sweep."""

from __future__ import annotations

import pytest

from holdfast.background.counters import Swept
from holdfast.clock import ManualClock
from holdfast.events import Event
from holdfast.job.state import JobState
from holdfast.reconcile.deadline import DeadlineReconciler
from holdfast.reconcile.lapsed_leases import LapsedLeasesReconciler
from holdfast.store.contract.store import Store
from tests.conformance.builders import Scene
from tests.support.reconcile_scene import PoisonedJobs, UnreadableJobs, made, with_jobs
from tests.system.test_reconcilers import running_on_the_dead


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> Scene:
    return await Scene.on(store, clock)


async def test_jobs_behind_many_poisoned_ones_do_not_starve(scene: Scene) -> None:
    jobs = await running_on_the_dead(scene, 9)
    poisoned = PoisonedJobs(scene.store.jobs, jobs[:6])
    expiry = made(LapsedLeasesReconciler, with_jobs(scene.store, poisoned), batch=2)
    assert await expiry.run_once() == Swept(found=9, mended=3, failed=6)
    assert set(await scene.states(jobs[6:])) == {JobState.SCHEDULED}


async def test_one_poisoned_job_does_not_spoil_its_batch(scene: Scene) -> None:
    jobs = await running_on_the_dead(scene, 50)
    poisoned = PoisonedJobs(scene.store.jobs, [jobs[20]])
    expiry = made(LapsedLeasesReconciler, with_jobs(scene.store, poisoned))
    assert await expiry.run_once() == Swept(found=50, mended=49, failed=1)
    assert await scene.state(jobs[20]) is JobState.RUNNING
    assert len(poisoned.tried) <= 8, "halving finds one among fifty in a few steps"


async def test_a_poisoned_job_rests_after_three_failures_and_is_tried_again_after_ten_cycles(
    scene: Scene,
) -> None:
    [job] = await running_on_the_dead(scene, 1)
    poisoned = PoisonedJobs(scene.store.jobs, [job])
    seen: list[Event] = []
    expiry = made(LapsedLeasesReconciler, with_jobs(scene.store, poisoned), seen)
    tallies = [await expiry.run_once() for _ in range(13)]
    assert tallies == [Swept(found=1, failed=1)] * 3 + [Swept(found=1, skipped=1)] * 10
    assert len(poisoned.tried) == 3
    failures = [event.fields for event in seen if event.name == "reconciler.items_failed"]
    assert [(each["jobs"], each["resting"]) for each in failures] == [
        ((job,), 0),
        ((job,), 0),
        ((job,), 1),
    ]
    poisoned.poison.clear()
    assert await expiry.run_once() == Swept(found=1, mended=1)
    assert len(expiry.failures) == 0


async def test_a_poisoned_deadline_does_not_hide_the_others(scene: Scene) -> None:
    jobs = sorted(await scene.enqueue_many(5, deadline_in=10.0))
    scene.clock.advance(11)
    poisoned = PoisonedJobs(scene.store.jobs, [jobs[0]])
    deadline = made(DeadlineReconciler, with_jobs(scene.store, poisoned), batch=2)
    assert await deadline.run_once() == Swept(found=5, mended=4, failed=1)
    assert await scene.states(jobs) == [JobState.READY] + [JobState.EXPIRED] * 4


async def test_a_job_whose_policy_cannot_be_read_does_not_spoil_its_batch(scene: Scene) -> None:
    jobs = await running_on_the_dead(scene, 3)
    unreadable = UnreadableJobs(scene.store.jobs, jobs[1])
    expiry = made(LapsedLeasesReconciler, with_jobs(scene.store, unreadable))
    assert await expiry.run_once() == Swept(found=3, mended=2, failed=1)
    assert await scene.state(jobs[1]) is JobState.RUNNING
