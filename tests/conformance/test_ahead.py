"""Jobs.ahead: how long the line before a job is."""

from __future__ import annotations

import pytest

from holdfast.job.ids import new_job_id
from holdfast.job.state import JobState
from tests.conformance.builders import REACHABLE, Scene


async def test_the_first_in_line_has_nobody_ahead(scene: Scene) -> None:
    assert await scene.store.jobs.ahead(await scene.enqueue()) == 0


async def test_those_of_better_priority_and_earlier_arrival_are_ahead(scene: Scene) -> None:
    await scene.enqueue_many(2)
    job = await scene.enqueue()
    await scene.enqueue_many(3)
    await scene.enqueue_many(4, priority=-1)
    await scene.enqueue_many(5, priority=1)
    await scene.enqueue_many(6, queue="other")
    assert await scene.store.jobs.ahead(job) == 6


async def test_the_count_stops_at_a_thousand(scene: Scene) -> None:
    await scene.enqueue_many(1_200)
    assert await scene.store.jobs.ahead(await scene.enqueue()) == 1_000


@pytest.mark.parametrize("state", [state for state in REACHABLE if state is not JobState.READY])
async def test_a_job_that_is_not_ready_has_nobody_ahead(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state)
    await scene.enqueue_many(3, priority=-9)
    assert await scene.store.jobs.ahead(job) == 0
    assert await scene.store.jobs.ahead(new_job_id()) == 0
