"""Moments at the end of the calendar, as an older release, another program or a hand may have
written them: no sweep stops at them, and every view can show them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast.insights.checks import check_waiting
from holdfast.insights.explain import explain
from holdfast.insights.workforce import Workforce
from holdfast.job.ends import HandedBack
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from tests.conformance.builders import Scene, new_job

END = datetime.max.replace(tzinfo=UTC)


async def test_a_job_due_at_the_end_of_time_does_not_stop_promotion(scene: Scene) -> None:
    never = await scene.enqueue(run_at=END)
    soon = await scene.enqueue(delay=60.0)
    promoted = await scene.store.jobs.promote_due(10)
    assert promoted.next_due_in == pytest.approx(60)
    scene.clock.advance(61)
    promoted = await scene.store.jobs.promote_due(10)
    assert promoted.count == 1
    assert promoted.next_due_in is None or promoted.next_due_in > 1e9
    assert await scene.states([never, soon]) == [JobState.SCHEDULED, JobState.READY]


async def test_a_deadline_at_the_end_of_time_does_not_stop_the_sweep(scene: Scene) -> None:
    await scene.enqueue(deadline_at=END)
    far = await scene.store.jobs.next_deadline_in()
    assert far is None or far > 1e9
    job = await scene.enqueue(deadline_in=60.0)
    assert await scene.store.jobs.next_deadline_in() == pytest.approx(60)
    scene.clock.advance(61)
    assert [live.id for live in await scene.store.jobs.past_deadline(10)] == [job]


async def test_a_job_with_a_deadline_at_the_end_of_time_can_be_claimed(scene: Scene) -> None:
    claimed = await scene.running(deadline_at=END)
    assert claimed.deadline_at is not None
    assert claimed.deadline_at > claimed.claimed_at
    assert (await scene.finish(claimed, HandedBack())).accepted


async def test_every_view_shows_a_moment_at_the_end_of_time(scene: Scene) -> None:
    job_id = await scene.enqueue(run_at=END, deadline_at=END)
    page = await scene.store.jobs.page(JobFilter(), 10)
    for job in (await scene.job(job_id), page.jobs[0]):
        assert job.due_at is not None
        assert job.deadline_at is not None
        assert job.due_at.year == job.deadline_at.year == 9999
        assert (await explain(scene.store, job)).reasons
    workforce = Workforce(await scene.store.now(), [], [])
    assert [found.severity.value for found in await check_waiting(scene.store, workforce)] == ["ok"]


async def test_many_jobs_at_the_end_of_time_are_written_like_any_others(scene: Scene) -> None:
    jobs = [new_job(run_at=END, deadline_at=END) for _ in range(150)]
    await scene.store.jobs.insert(jobs)
    assert await scene.store.jobs.count(JobFilter()) == {JobState.SCHEDULED: 150}
