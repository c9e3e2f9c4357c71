"""Jobs.prune: retention removes what is over, in bounded bites, and leaves no crumbs."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.clock import ManualClock
from holdfast.job.ends import Cancelled, End
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy, Retention
from holdfast.job.record import Progress
from holdfast.job.state import ENDED, JobState
from holdfast.job.unique import Unique
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.records import ProgressReport
from tests.conformance.builders import FAILED, QUEUE, RAISED, RETURNED, Scene
from tests.support.backends import Inspectable, opened, siblings

MINUTE = Policy(retention=Retention(succeeded=60, failed=60, other=60))


async def test_an_empty_store_has_nothing_to_prune(scene: Scene) -> None:
    assert await scene.store.jobs.prune(10) == 0


async def test_a_job_is_pruned_when_its_time_is_over_and_not_before(scene: Scene) -> None:
    job = (await scene.ended(policy=MINUTE)).id
    scene.clock.advance(59)
    assert await scene.store.jobs.prune(10) == 0
    assert await scene.state(job) is JobState.SUCCEEDED
    scene.clock.advance(2)
    assert await scene.store.jobs.prune(10) == 1
    assert await scene.state(job) is None


FOR_EVER = Policy(retention=Retention.forever())


@pytest.mark.parametrize("end", [RETURNED, FAILED, Cancelled()], ids=lambda end: type(end).__name__)
async def test_a_job_kept_for_ever_is_never_pruned(scene: Scene, end: End) -> None:
    job = (await scene.ended(end, policy=FOR_EVER)).id
    assert (await scene.job(job)).expires_at is None
    scene.clock.advance(1e8)
    assert await scene.store.jobs.prune(10) == 0
    assert await scene.store.jobs.requeue([job]) == [job]
    [again] = await scene.claim(1)
    await scene.finish(again, end)
    assert await scene.store.jobs.delete([job]) == [job]


async def test_a_job_kept_for_ever_is_kept_also_where_a_store_ends_it_by_itself(
    scene: Scene,
) -> None:
    marked = await scene.running(policy=FOR_EVER)
    await scene.store.jobs.request_cancel([marked.id])
    await scene.finish(marked, RAISED)
    key = Unique("k", on_conflict="replace")
    replaced = (await scene.insert(policy=FOR_EVER, unique=key)).id
    await scene.insert(unique=key)
    scene.clock.advance(1e8)
    await scene.store.jobs.prune(10)
    kept = [marked.id, replaced]
    assert [await scene.state(job) for job in kept] == [JobState.CANCELLED] * 2
    await scene.store.jobs.delete(kept)


async def test_a_queue_s_own_retention_counts_also_for_jobs_kept_for_ever(scene: Scene) -> None:
    await scene.store.queues.tune(QUEUE, QueueSettings(retain_succeeded=60))
    await scene.ended(policy=FOR_EVER)
    scene.clock.advance(61)
    assert await scene.store.jobs.prune(10) == 1


@pytest.mark.parametrize("state", [JobState.READY, JobState.SCHEDULED, JobState.RUNNING])
async def test_a_live_job_is_never_pruned(scene: Scene, state: JobState) -> None:
    job = await scene.in_state(state, policy=MINUTE)
    scene.clock.advance(1e8)
    assert await scene.store.jobs.prune(10) == 0
    assert await scene.state(job) is state


async def test_a_bite_is_no_larger_than_asked(scene: Scene) -> None:
    await scene.enqueue_many(25, policy=MINUTE)
    moves = [decide(job, RETURNED) for job in await scene.claim(25)]
    await scene.store.jobs.finish(moves)
    scene.clock.advance(61)
    assert [await scene.store.jobs.prune(10) for _ in range(4)] == [10, 10, 5, 0]
    assert await scene.store.jobs.count(JobFilter()) == {}


async def test_a_requeued_job_is_not_pruned_for_its_former_life(scene: Scene) -> None:
    job = (await scene.ended(FAILED, policy=MINUTE)).id
    await scene.store.jobs.requeue([job])
    scene.clock.advance(61)
    assert await scene.store.jobs.prune(10) == 0
    assert await scene.state(job) is JobState.READY


async def test_a_tuned_queue_prunes_sooner(scene: Scene) -> None:
    await scene.store.queues.tune(QUEUE, QueueSettings(retain_succeeded=0))
    await scene.ended(RETURNED)
    scene.clock.advance(0.001)
    assert await scene.store.jobs.prune(10) == 1


async def test_a_pruned_job_gives_its_key_back(scene: Scene) -> None:
    unique = Unique("k", states=frozenset(JobState))
    await scene.ended(policy=MINUTE, unique=unique)
    scene.clock.advance(61)
    await scene.store.jobs.prune(10)
    assert (await scene.insert(unique=unique)).how == "created"


async def test_many_pruners_prune_a_job_once(scene: Scene) -> None:
    await scene.enqueue_many(60, policy=MINUTE)
    moves = [decide(job, RETURNED) for job in await scene.claim(60)]
    await scene.store.jobs.finish(moves)
    scene.clock.advance(61)
    async with siblings(scene.store, 3) as others:
        pruned = await asyncio.gather(*(other.jobs.prune(100) for other in others))
    assert sum(pruned) + await scene.store.jobs.prune(100) == 60


@pytest.mark.parametrize("verb", ["prune", "delete"])
async def test_nothing_is_left_of_a_removed_job_in_any_table(
    inspectable: Inspectable, clock: ManualClock, verb: str
) -> None:
    url = await inspectable.empty()
    async with opened(url, clock) as store:
        scene = await Scene.on(store, clock)
        job = await _with_a_rich_life(scene)
        assert len(await _tables_that_mention(inspectable, url, job)) >= 4
        clock.advance(61)
        removed = await store.jobs.prune(10) if verb == "prune" else await store.jobs.delete([job])
        assert removed in (1, [job])
        # Deadlines of ended jobs are dropped by the sweep over deadlines, whichever comes first.
        await store.jobs.past_deadline(10)
        await store.telemetry.fold(100)
        [table] = await _tables_that_mention(inspectable, url, job)
        assert "failure" in table, "a failure shows one of its errors until it is removed itself"
        assert await store.failures.prune(100, 0.0, 0) == 2
        assert await _tables_that_mention(inspectable, url, job) == []


async def _with_a_rich_life(scene: Scene) -> JobId:
    """A job that has been in many tables: keys, tags, deadline, progress, errors, retries."""
    claimed = await scene.running(
        policy=MINUTE, unique=Unique("k"), tags=("a",), deadline_in=30.0, headers="{}"
    )
    progress = ProgressReport(claimed.id, claimed.fence, Progress(0.5, "half", "{}"))
    await scene.store.jobs.report_progress([progress])
    await scene.finish(claimed, RAISED)
    await scene.store.jobs.reschedule([claimed.id], 0)
    again = await scene.claim_one()
    await scene.store.jobs.request_cancel([again.id])
    await scene.finish(again, FAILED)
    return claimed.id


async def _tables_that_mention(inspectable: Inspectable, url: str, job: str) -> list[str]:
    found = []
    for table in await inspectable.tables(url):
        rows = await inspectable.query(url, f"select * from {table}")
        if any(job in str(value) for row in rows for value in row):
            found.append(table)
    return found


async def test_every_state_is_pruned_by_its_own_retention(scene: Scene) -> None:
    policy = Policy(retention=Retention(succeeded=10, failed=20, other=30))
    for state in ENDED:
        await scene.in_state(state, policy=policy, queue=state)
    left = []
    for _ in range(3):
        scene.clock.advance(10.5)
        await scene.store.jobs.prune(10)
        left.append(set(await scene.store.jobs.count(JobFilter())))
    assert left == [
        {JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED, JobState.SKIPPED},
        {JobState.CANCELLED, JobState.EXPIRED, JobState.SKIPPED},
        set(),
    ]
