"""Jobs.claim: who is served, in what order, and who is not."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from time import perf_counter

import pytest

from holdfast.job.ends import HandedBack, WasThrottled
from holdfast.job.ids import new_worker_id
from holdfast.job.policy import Policy
from holdfast.job.record import Claimed, Progress
from holdfast.job.state import JobState
from holdfast.store.contract.records import ProgressReport, Want
from tests.conformance.builders import QUEUE, RAISED, STEADY, TASK, Scene, ids, new_job
from tests.support.backends import siblings


async def test_an_empty_queue_gives_nothing(scene: Scene) -> None:
    assert await scene.claim(10) == []


async def test_a_claimed_job_runs_at_that_worker(scene: Scene) -> None:
    claimed = await scene.running()
    job = await scene.job(claimed.id)
    assert (job.state, job.worker_id) == (JobState.RUNNING, scene.worker)
    assert job.claimed_at == claimed.claimed_at == scene.clock.now


async def test_a_claim_brings_all_that_an_attempt_needs(scene: Scene) -> None:
    given = new_job(
        priority=3, deadline_in=60.0, tags=("a", "b"), headers='{"h":1}', policy=Policy(timeout=9)
    )
    await scene.store.jobs.insert([given])
    scene.clock.advance(1)
    claimed = await scene.claim_one()
    assert claimed.fence > 0
    assert claimed == Claimed(
        id=given.id,
        task=TASK,
        queue=QUEUE,
        priority=3,
        args=given.args,
        policy=given.policy,
        attempts=0,
        crashes=0,
        fence=claimed.fence,
        created_at=scene.after(-1),
        ready_at=scene.after(-1),
        claimed_at=scene.clock.now,
        deadline_at=scene.after(59),
        tags=("a", "b"),
        headers='{"h":1}',
        checkpoint=None,
    )


async def test_a_delayed_job_is_ready_when_it_is_due_and_promoted(scene: Scene) -> None:
    await scene.enqueue(delay=60.0)
    scene.clock.advance(60)
    await scene.store.jobs.promote_due(10)
    scene.clock.advance(5)
    claimed = await scene.claim_one()
    assert (claimed.ready_at, claimed.claimed_at) == (scene.after(-5), scene.clock.now)


async def test_a_retried_job_is_ready_when_its_retry_is_promoted(scene: Scene) -> None:
    await scene.finish(await scene.running(), RAISED)
    scene.clock.advance(10)
    await scene.store.jobs.promote_due(10)
    promoted_at = scene.clock.now
    scene.clock.advance(3)
    assert (await scene.claim_one()).ready_at == promoted_at


async def test_a_job_that_is_handed_back_has_been_ready_all_the_time(scene: Scene) -> None:
    await scene.enqueue()
    ready_at = scene.clock.now
    scene.clock.advance(2)
    await scene.finish(await scene.claim_one(), HandedBack())
    scene.clock.advance(2)
    assert (await scene.claim_one()).ready_at == ready_at


async def test_first_come_first_served(scene: Scene) -> None:
    jobs = [await scene.enqueue() for _ in range(5)]
    assert ids(await scene.claim(3)) == jobs[:3]
    assert ids(await scene.claim(3)) == jobs[3:]


async def test_a_lower_priority_number_goes_first(scene: Scene) -> None:
    later, normal, urgent, also_normal = [
        await scene.enqueue(priority=priority) for priority in (7, 0, -7, 0)
    ]
    assert ids(await scene.claim(10)) == [urgent, normal, also_normal, later]


async def test_priority_decides_across_claims(scene: Scene) -> None:
    await scene.enqueue_many(3, priority=1)
    urgent = await scene.enqueue(priority=-1)
    assert ids(await scene.claim(1)) == [urgent]


async def test_a_job_is_given_once(scene: Scene) -> None:
    await scene.enqueue()
    assert len(await scene.claim(10)) == 1
    assert await scene.claim(10) == []


async def test_no_more_than_asked_for_is_given(scene: Scene) -> None:
    await scene.enqueue_many(5)
    assert len(await scene.claim(2)) == 2
    assert await scene.claim(0) == []
    assert len(await scene.claim(10)) == 3


async def test_several_queues_have_limits_of_their_own(scene: Scene) -> None:
    for queue in ("a", "b", "c"):
        await scene.enqueue_many(5, queue=queue)
    wants = [Want("a", 1), Want("b", 3), Want("empty", 9)]
    claimed = await scene.store.jobs.claim(scene.worker, wants, [TASK])
    assert sorted(job.queue for job in claimed) == ["a", "b", "b", "b"]


async def test_each_of_several_queues_is_served_in_its_own_order(scene: Scene) -> None:
    firsts = {queue: await scene.enqueue(queue=queue, priority=-1) for queue in ("a", "b")}
    await scene.enqueue_many(2, queue="a", priority=-9)
    wants = [Want("a", 3), Want("b", 1)]
    claimed = await scene.store.jobs.claim(scene.worker, wants, [TASK])
    assert [job.id for job in claimed if job.queue == "a"][2] == firsts["a"]
    assert [job.id for job in claimed if job.queue == "b"] == [firsts["b"]]


async def test_nobody_asking_gets_nothing(scene: Scene) -> None:
    await scene.enqueue()
    assert await scene.store.jobs.claim(scene.worker, [], [TASK]) == []
    assert await scene.store.jobs.claim(scene.worker, [Want(QUEUE, 5)], []) == []


async def test_a_queue_asked_for_twice_gives_no_job_twice(scene: Scene) -> None:
    await scene.enqueue_many(5)
    wants = [Want(QUEUE, 2), Want(QUEUE, 2)]
    claimed = ids(await scene.store.jobs.claim(scene.worker, wants, [TASK]))
    assert 2 <= len(claimed) == len(set(claimed)) <= 4


async def test_an_unknown_task_is_left_alone(scene: Scene) -> None:
    unknown, known = await scene.enqueue("other"), await scene.enqueue()
    assert ids(await scene.claim(10)) == [known]
    assert await scene.state(unknown) is JobState.READY


async def test_jobs_of_several_tasks_keep_one_line(scene: Scene) -> None:
    jobs = [await scene.enqueue(task) for task in ("a", "b", "other", "a", "b")]
    expected = [jobs[0], jobs[1], jobs[3], jobs[4]]
    assert ids(await scene.claim(10, tasks=["b", "a"])) == expected


async def test_a_task_named_twice_gives_no_job_twice(scene: Scene) -> None:
    jobs = await scene.enqueue_many(3)
    assert ids(await scene.claim(10, tasks=[TASK, TASK])) == jobs


async def test_thousands_of_unknown_tasks_at_the_head_do_not_slow_the_claim(scene: Scene) -> None:
    await scene.enqueue_many(400, queue="clear")
    for task in range(5):
        await scene.enqueue_many(1_000, f"unknown{task}", queue="clogged", priority=-1)
    await scene.enqueue_many(400, queue="clogged")
    clear, clogged = await _time_to_drain(scene, "clear"), await _time_to_drain(scene, "clogged")
    assert clogged < 5 * clear + 0.1


async def _time_to_drain(scene: Scene, queue: str) -> float:
    started = perf_counter()
    for _ in range(20):
        assert len(await scene.claim(20, queue)) == 20
    return perf_counter() - started


async def test_a_paused_queue_gives_nothing(scene: Scene) -> None:
    await scene.enqueue()
    await scene.store.queues.pause([QUEUE])
    assert await scene.claim(10) == []
    await scene.store.queues.resume([QUEUE])
    assert len(await scene.claim(10)) == 1


async def test_a_paused_queue_does_not_hold_up_another(scene: Scene) -> None:
    await scene.enqueue_many(2, queue="paused")
    job = await scene.enqueue(queue="open")
    await scene.store.queues.pause(["paused"])
    wants = [Want("paused", 5), Want("open", 5)]
    assert ids(await scene.store.jobs.claim(scene.worker, wants, [TASK])) == [job]


async def test_a_cooling_queue_gives_nothing_until_it_has_cooled(scene: Scene) -> None:
    await scene.finish(await scene.running(), WasThrottled(30.0, "slow down"))
    await scene.enqueue()
    scene.clock.advance(29)
    assert await scene.claim(10) == []
    scene.clock.advance(1)
    assert len(await scene.claim(10)) == 1


async def test_a_lapsed_worker_claims_nothing(scene: Scene) -> None:
    await scene.enqueue()
    worker = await scene.hire(lease=30)
    scene.clock.advance(31)
    assert await scene.claim(10, worker=worker) == []
    await scene.store.workers.heartbeat(worker, 30, [])
    assert len(await scene.claim(10, worker=worker)) == 1


async def test_a_worker_that_left_or_never_came_claims_nothing(scene: Scene) -> None:
    await scene.enqueue()
    worker = await scene.hire()
    await scene.lose(worker)
    assert await scene.claim(10, worker=worker) == []
    assert await scene.claim(10, worker=new_worker_id()) == []


@pytest.mark.parametrize(
    "state", [JobState.SCHEDULED, JobState.SUSPENDED, JobState.SUCCEEDED, JobState.FAILED]
)
async def test_only_ready_jobs_are_given(scene: Scene, state: JobState) -> None:
    await scene.in_state(state)
    assert await scene.claim(10) == []


async def test_a_due_job_waits_for_its_promotion(scene: Scene) -> None:
    await scene.enqueue(delay=1.0)
    scene.clock.advance(2)
    assert await scene.claim(10) == []
    await scene.store.jobs.promote_due(10)
    assert len(await scene.claim(10)) == 1


async def test_fences_grow_with_every_claim(scene: Scene) -> None:
    job = await scene.enqueue()
    fences = []
    for _ in range(4):
        claimed = await scene.claim_one()
        fences.append(claimed.fence)
        await scene.finish(claimed, HandedBack())
    assert fences == sorted(set(fences))
    assert (await scene.job(job)).fence == fences[-1]


async def test_a_retried_job_says_which_attempt_it_is(scene: Scene) -> None:
    first = await scene.ended(RAISED)
    scene.clock.advance(STEADY.retry.base)
    await scene.store.jobs.promote_due(10)
    second = await scene.claim_one()
    assert (first.attempt, second.attempt, second.attempts) == (1, 2, 1)


async def test_a_checkpoint_comes_with_the_next_attempt(scene: Scene) -> None:
    first = await scene.running()
    report = ProgressReport(first.id, first.fence, Progress(0.5, "half", '{"page":3}'))
    await scene.store.jobs.report_progress([report])
    await scene.finish(first, HandedBack())
    assert (await scene.claim_one()).checkpoint == '{"page":3}'


async def test_a_thousand_jobs_are_claimed_in_one_call(scene: Scene) -> None:
    jobs = await scene.enqueue_many(1_000)
    assert ids(await scene.claim(1_000)) == jobs


async def test_each_of_many_jobs_comes_with_its_own_arguments_however_long(scene: Scene) -> None:
    sizes = [1, 100, 5_000, 100_000] * 10
    jobs = [
        new_job(args=f'{{"text":"{n}{"x" * size}"}}', tags=(f"n:{n}",))
        for n, size in enumerate(sizes)
    ]
    await scene.store.jobs.insert(jobs)
    claimed = await scene.claim(len(jobs))
    assert [(c.id, c.args, c.tags) for c in claimed] == [(j.id, j.args, j.tags) for j in jobs]


async def test_claimed_times_are_aware_and_exact(scene: Scene) -> None:
    scene.clock.advance(0.123456)
    claimed = await scene.running()
    assert claimed.claimed_at - scene.clock.now == timedelta(0)


async def test_many_claimers_never_get_the_same_job(scene: Scene) -> None:
    jobs = await scene.enqueue_many(400)
    async with siblings(scene.store, 4) as others:
        claimers = [scene.through(other) for other in others for _ in range(2)]
        shares = await asyncio.gather(*(_claim_all(claimer) for claimer in claimers))
    given = [job for share in shares for job in share]
    assert sorted(given) == sorted(jobs)


async def _claim_all(scene: Scene) -> list[str]:
    """Until nothing is left. Rows that another holds at that moment may be passed over."""
    mine: list[str] = []
    misses = 0
    while misses < 3:
        claimed = await scene.claim(7)
        mine += ids(claimed)
        misses = 0 if claimed else misses + 1
    return mine


async def test_what_no_slot_is_free_for_is_marked_as_claimed_ahead(scene: Scene) -> None:
    worker = await scene.hire(lease=30)
    jobs = await scene.enqueue_many(5)
    claimed = await scene.claim(5, worker=worker, free=2)
    assert [(job.id, job.ahead) for job in claimed] == [
        *((job, False) for job in jobs[:2]),
        *((job, True) for job in jobs[2:]),
    ]
    assert [(await scene.live(job)).ahead for job in jobs] == [False] * 2 + [True] * 3
    scene.clock.advance(31)
    expired = {job.id: job.ahead for job in await scene.store.jobs.lapsed_leases(10)}
    assert expired == {job.id: job.ahead for job in claimed}


async def test_the_most_urgent_are_those_that_begin_at_once(scene: Scene) -> None:
    late, early = await scene.enqueue(priority=5), await scene.enqueue(priority=-5)
    claimed = await scene.claim(2, free=1)
    assert [(job.id, job.ahead) for job in claimed] == [(early, False), (late, True)]


async def test_each_queue_has_its_own_free_slots(scene: Scene) -> None:
    for queue in ("mail", "sums"):
        await scene.enqueue_many(3, queue=queue)
    wants = [Want("mail", 3, 0), Want("sums", 3, 2)]
    claimed = await scene.store.jobs.claim(scene.worker, wants, [TASK])
    assert [job.ahead for job in claimed if job.queue == "mail"] == [True] * 3
    assert [job.ahead for job in claimed if job.queue == "sums"] == [False, False, True]


async def test_a_job_that_was_handed_back_is_ahead_no_more(scene: Scene) -> None:
    await scene.enqueue()
    [ahead] = await scene.claim(1, free=0)
    await scene.finish(ahead, HandedBack())
    assert not (await scene.live(ahead.id)).ahead
    assert not (await scene.claim_one()).ahead
