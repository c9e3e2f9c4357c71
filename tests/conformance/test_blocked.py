"""Blocked and skipped: places like any other, for jobs that wait for something else than time."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import IllegalMove
from holdfast.job.ends import Cancelled, DeadlinePassed, Released, Skipped
from holdfast.job.state import TRANSITIONS, JobState
from holdfast.job.transition import Transition
from holdfast.job.unique import Unique
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.health import Severity
from tests.conformance.builders import QUEUE, Scene, ids, new_job

BLOCKED = JobState.BLOCKED
SKIPPED = JobState.SKIPPED


async def test_a_blocked_job_is_claimed_by_nobody(scene: Scene) -> None:
    job = await scene.enqueue(blocked=True)
    assert await scene.claim() == []
    assert await scene.state(job) is BLOCKED
    assert (await scene.live(job)).state is BLOCKED


@pytest.mark.parametrize("count", [1, 3, 300])
async def test_blocked_jobs_are_counted_paged_and_shown_on_their_queue(
    scene: Scene, count: int
) -> None:
    jobs = await scene.enqueue_many(count, blocked=True)
    await scene.enqueue()
    assert await scene.store.jobs.count(JobFilter()) == {BLOCKED: count, JobState.READY: 1}
    page = await scene.store.jobs.page(JobFilter(states=frozenset({BLOCKED})), 500)
    assert {job.id for job in page.jobs} == set(jobs)
    assert {job.state for job in page.jobs} == {BLOCKED}
    [queue] = await scene.store.queues.find([QUEUE])
    assert queue.counts == {BLOCKED: count, JobState.READY: 1}


async def test_a_blocked_job_stands_in_no_line(scene: Scene) -> None:
    job = await scene.enqueue(blocked=True)
    behind = await scene.enqueue()
    assert await scene.store.jobs.ahead(job) == 0
    assert await scene.store.jobs.ahead(behind) == 0
    assert (await scene.store.workers.poll(scene.worker, [QUEUE], ["greet"])).ready
    await scene.claim()
    assert not (await scene.store.workers.poll(scene.worker, [QUEUE], ["greet"])).ready


@pytest.mark.parametrize("options", [{"delay": 1.0}, {"deadline_in": 3600.0}, {"priority": 7}])
async def test_time_alone_releases_no_blocked_job(scene: Scene, options: dict[str, Any]) -> None:
    job = await scene.enqueue(blocked=True, **options)
    scene.clock.advance(60)
    assert (await scene.store.jobs.promote_due(10)).count == 0
    assert await scene.state(job) is BLOCKED


async def test_a_released_job_runs_with_all_it_was_given(scene: Scene) -> None:
    job = await scene.enqueue(blocked=True, priority=3, tags=("a",), headers='{"x":"y"}')
    assert (await scene.finish(await scene.live(job), Released())).accepted
    claimed = await scene.claim_one()
    assert (claimed.id, claimed.priority, claimed.tags, claimed.headers, claimed.attempts) == (
        job,
        3,
        ("a",),
        '{"x":"y"}',
        0,
    )


async def test_a_job_may_be_released_to_a_later_time(scene: Scene) -> None:
    job = await scene.enqueue(blocked=True)
    await scene.finish(await scene.live(job), Released(60.0))
    assert await scene.state(job) is JobState.SCHEDULED
    scene.clock.advance(61)
    assert (await scene.store.jobs.promote_due(10)).count == 1
    assert (await scene.claim_one()).id == job


async def test_released_jobs_stand_in_line_by_their_release(scene: Scene) -> None:
    first, second = await scene.enqueue(blocked=True), await scene.enqueue()
    await scene.finish(await scene.live(first), Released())
    assert await scene.line() == [second, first]


async def test_a_job_is_released_once(scene: Scene) -> None:
    job = await scene.enqueue(blocked=True)
    found = await scene.live(job)
    assert (await scene.finish(found, Released())).accepted
    verdict = await scene.finish(found, Released())
    assert (verdict.accepted, verdict.state) == (False, JobState.READY)
    verdict = await scene.finish(found, Skipped("too late"))
    assert (verdict.accepted, verdict.state) == (False, JobState.READY)


async def test_a_skipped_job_has_ended_and_says_why(scene: Scene) -> None:
    job = await scene.enqueue(blocked=True)
    assert (await scene.finish(await scene.live(job), Skipped("import failed"))).accepted
    ended = await scene.job(job)
    assert (ended.state, ended.reason, ended.attempts) == (SKIPPED, "import failed", 0)
    assert ended.finished_at is not None
    [outcome] = await scene.store.jobs.outcomes([job])
    assert (outcome.state, outcome.reason) == (SKIPPED, "import failed")
    assert await scene.store.jobs.count(JobFilter()) == {SKIPPED: 1}
    assert await scene.store.jobs.live([job]) == []


async def test_skipped_jobs_are_kept_for_a_while_and_pruned(scene: Scene) -> None:
    job = await scene.in_state(SKIPPED)
    assert await scene.store.jobs.prune(10) == 0
    scene.clock.advance(8 * 86_400)
    assert await scene.store.jobs.prune(10) == 1
    assert await scene.state(job) is None


async def test_a_skipped_job_can_be_requeued_and_deleted(scene: Scene) -> None:
    again, gone = await scene.in_state(SKIPPED), await scene.in_state(SKIPPED)
    assert await scene.store.jobs.requeue([again]) == [again]
    assert (await scene.claim_one()).id == again
    assert await scene.store.jobs.delete([gone]) == [gone]


@pytest.mark.parametrize(
    ("end", "state"),
    [(Cancelled(), JobState.CANCELLED), (DeadlinePassed(), JobState.EXPIRED)],
)
async def test_a_blocked_job_ends_like_any_that_waits(
    scene: Scene, end: Cancelled | DeadlinePassed, state: JobState
) -> None:
    job = await scene.in_state(BLOCKED)
    assert (await scene.finish(await scene.live(job), end)).accepted
    assert await scene.state(job) is state


async def test_the_deadline_of_a_blocked_job_passes(scene: Scene) -> None:
    job = await scene.enqueue(blocked=True, deadline_in=60.0)
    assert await scene.store.jobs.next_deadline_in() == pytest.approx(60, abs=1)
    scene.clock.advance(61)
    [found] = await scene.store.jobs.past_deadline(10)
    assert (found.id, found.state) == (job, BLOCKED)


async def test_a_blocked_job_can_be_moved_and_reprioritised(scene: Scene) -> None:
    job = await scene.enqueue(blocked=True)
    assert await scene.store.jobs.move([job], "other") == [job]
    assert await scene.store.jobs.reprioritise([job], 5) == [job]
    found = await scene.job(job)
    assert (found.state, found.queue, found.priority) == (BLOCKED, "other", 5)
    await scene.finish(await scene.live(job), Released())
    assert (await scene.claim_one("other")).priority == 5


async def test_verbs_for_other_places_leave_a_blocked_job_alone(scene: Scene) -> None:
    job = await scene.enqueue(blocked=True)
    jobs = scene.store.jobs
    assert await jobs.resume([job]) == []
    assert await jobs.request_cancel([job]) == []
    assert await jobs.requeue([job]) == []
    assert await jobs.delete([job]) == []
    assert await jobs.reschedule([job], 0) == []
    assert await jobs.promote([job]) == 0
    assert await scene.state(job) is BLOCKED


async def test_a_blocked_job_holds_its_unique_key(scene: Scene) -> None:
    unique = Unique("task:greet:ada")
    holder = await scene.insert(blocked=True, unique=unique)
    again = await scene.insert(unique=unique)
    assert (again.id, again.how) == (holder.id, "existing")
    await scene.finish(await scene.live(holder.id), Skipped("not needed"))
    assert (await scene.insert(unique=unique)).how == "created"


async def test_a_blocked_job_is_replaced_like_any_that_waits(scene: Scene) -> None:
    holder = await scene.insert(blocked=True, unique=Unique("task:greet:ada"))
    newer = await scene.insert(unique=Unique("task:greet:ada", on_conflict="replace"))
    assert newer.how == "replaced"
    assert await scene.state(holder.id) is JobState.CANCELLED
    assert await scene.line() == [newer.id]


async def test_blocked_jobs_are_no_problem_to_a_doctor(scene: Scene) -> None:
    await scene.enqueue_many(3, blocked=True)
    await scene.in_state(SKIPPED)
    found = await scene.store.health.check()
    assert [one for one in found if one.severity is Severity.PROBLEM] == []


ILLEGAL = [(source, to) for source in JobState for to in JobState if to not in TRANSITIONS[source]]


@pytest.mark.parametrize(("source", "to"), ILLEGAL)
async def test_a_move_that_no_job_makes_is_an_error_and_changes_nothing(
    scene: Scene, source: JobState, to: JobState
) -> None:
    job = await scene.in_state(source)
    bystander = await scene.in_state(JobState.RUNNING, queue="other")
    fence = (await scene.job(job)).fence
    good = Transition(bystander, (await scene.job(bystander)).fence, JobState.SUCCEEDED, spend=1)
    with pytest.raises(IllegalMove):
        await scene.store.jobs.finish([good, Transition(job, fence, to, source)])
    assert await scene.states([job, bystander]) == [source, JobState.RUNNING]


async def test_a_repeated_insert_of_a_blocked_job_is_acknowledged(scene: Scene) -> None:
    job = new_job(blocked=True)
    for _ in range(2):
        [answer] = await scene.store.jobs.insert([job])
        assert (answer.id, answer.how) == (job.id, "created")
    assert ids(await scene.store.jobs.live([job.id])) == [job.id]
