"""Jobs.count: how many jobs there are, by state."""

from __future__ import annotations

from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from tests.conformance.builders import RAISED, REACHABLE, Scene


async def test_states_without_jobs_are_left_out(scene: Scene) -> None:
    assert await scene.store.jobs.count(JobFilter()) == {}


async def test_every_state_is_counted(scene: Scene) -> None:
    for number, state in enumerate(REACHABLE, start=1):
        for _ in range(number):
            await scene.in_state(state, queue=state)
    counted = await scene.store.jobs.count(JobFilter())
    assert counted == {state: number for number, state in enumerate(REACHABLE, start=1)}


async def test_filters_narrow_the_count(scene: Scene) -> None:
    await scene.enqueue_many(3, queue="a", tags=("t",))
    await scene.enqueue_many(2, "other", queue="b")
    await scene.ended(RAISED, queue="c")
    count = scene.store.jobs.count
    assert await count(JobFilter(queues=("a",))) == {JobState.READY: 3}
    assert await count(JobFilter(tasks=("other",))) == {JobState.READY: 2}
    assert await count(JobFilter(tags=("t",))) == {JobState.READY: 3}
    assert await count(JobFilter(error_text="no such")) == {JobState.SCHEDULED: 1}
    assert await count(JobFilter(states=frozenset({JobState.READY}))) == {JobState.READY: 5}
    assert await count(JobFilter(created_after=scene.after(1))) == {}
