"""Jobs.live: what an operator's verb needs to know before it decides."""

from __future__ import annotations

import pytest

from holdfast.job.ids import new_job_id
from holdfast.job.state import ENDED, JobState
from tests.conformance.builders import REACHABLE, Scene, ids


async def test_nothing_asked_nothing_found(scene: Scene) -> None:
    assert await scene.store.jobs.live([]) == []
    assert await scene.store.jobs.live([new_job_id()]) == []


@pytest.mark.parametrize("state", REACHABLE)
async def test_only_live_jobs_are_found(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state)
    found = await scene.store.jobs.live([job])
    assert [(live.id, live.state) for live in found] == ([] if state in ENDED else [(job, state)])


async def test_a_running_job_names_its_worker_and_its_cancel(scene: Scene) -> None:
    claimed = await scene.running()
    assert (await scene.live(claimed.id)).worker_id == scene.worker
    assert not (await scene.live(claimed.id)).cancel_requested
    await scene.store.jobs.request_cancel([claimed.id])
    assert (await scene.live(claimed.id)).cancel_requested


async def test_a_job_asked_for_twice_is_found_once(scene: Scene) -> None:
    job = await scene.enqueue()
    assert ids(await scene.store.jobs.live([job, job])) == [job]
