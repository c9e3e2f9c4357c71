"""Queues: named lines that an operator tunes while they are in use."""

from __future__ import annotations

import pytest

from holdfast.job.ends import HandedBack, WasThrottled
from holdfast.job.state import JobState
from holdfast.store.contract.queues import EVERY_QUEUE, Paused, QueueInfo, QueueSettings, jobs_of
from tests.conformance.builders import QUEUE, TASK, Scene

TUNED = QueueSettings(2.0, 60.0, 1.0, 2.0, 3.0)


async def info(scene: Scene, name: str = QUEUE) -> QueueInfo:
    [found] = await scene.store.queues.find([name])
    return found


async def test_a_new_store_knows_no_queue(scene: Scene) -> None:
    assert await scene.store.queues.find() == []


async def test_an_ensured_queue_is_known_before_its_first_job(scene: Scene) -> None:
    await scene.store.queues.ensure({"b": QueueSettings(), "a": TUNED})
    assert [(one.name, one.settings) for one in await scene.store.queues.find()] == [
        ("a", TUNED),
        ("b", QueueSettings()),
    ]


async def test_ensure_never_overwrites_what_an_operator_tuned(scene: Scene) -> None:
    await scene.store.queues.tune(QUEUE, TUNED)
    await scene.store.queues.pause([QUEUE])
    await scene.store.queues.ensure({QUEUE: QueueSettings(), "other": QueueSettings()})
    assert ((await info(scene)).settings, (await info(scene)).paused) == (TUNED, True)


async def test_tuning_replaces_every_setting(scene: Scene) -> None:
    await scene.store.queues.tune(QUEUE, TUNED)
    await scene.store.queues.tune(QUEUE, QueueSettings(retain_failed=9.5))
    assert (await info(scene)).settings == QueueSettings(retain_failed=9.5)


async def test_tuning_leaves_a_pause_alone(scene: Scene) -> None:
    await scene.store.queues.pause([QUEUE])
    await scene.store.queues.tune(QUEUE, TUNED)
    assert (await info(scene)).paused


async def test_a_queue_with_jobs_is_known_by_itself(scene: Scene) -> None:
    await scene.enqueue(queue="mail")
    await scene.enqueue(queue="later", delay=60.0)
    assert [one.name for one in await scene.store.queues.find()] == ["later", "mail"]


async def test_only_those_named_are_listed(scene: Scene) -> None:
    await scene.store.queues.ensure({name: QueueSettings() for name in "abc"})
    assert [one.name for one in await scene.store.queues.find(["c", "a"])] == ["a", "c"]


async def test_a_queue_counts_its_jobs_by_state(scene: Scene) -> None:
    expected = {
        JobState.SCHEDULED: 1,
        JobState.RUNNING: 2,
        JobState.SUSPENDED: 1,
        JobState.READY: 3,
        JobState.FAILED: 1,
        JobState.SUCCEEDED: 2,
    }
    for state in (JobState.SUSPENDED, JobState.FAILED, JobState.SUCCEEDED, JobState.SUCCEEDED):
        await scene.in_state(state)
    for _ in range(2):
        await scene.in_state(JobState.RUNNING)
    await scene.in_state(JobState.SCHEDULED)
    await scene.enqueue_many(3)
    await scene.enqueue(queue="other")
    assert (await info(scene)).counts == expected


async def test_lag_is_the_age_of_the_oldest_ready_job(scene: Scene) -> None:
    await scene.store.queues.ensure({QUEUE: QueueSettings()})
    assert (await info(scene)).oldest_ready_age is None
    await scene.enqueue()
    scene.clock.advance(10)
    await scene.enqueue(priority=-1)
    scene.clock.advance(5)
    assert (await info(scene)).oldest_ready_age == pytest.approx(15)
    await scene.claim(2)
    assert (await info(scene)).oldest_ready_age is None


async def test_the_oldest_ready_job_is_found_among_64_priorities(scene: Scene) -> None:
    """A hand-back puts the oldest one back in its place."""
    for priority in (17, *range(17), *range(18, 64)):
        await scene.enqueue(priority=priority)
        scene.clock.advance(1)
    assert (await info(scene)).oldest_ready_age == pytest.approx(64)
    for claimed in await scene.claim(18):
        await scene.finish(claimed, HandedBack())
    assert (await info(scene)).oldest_ready_age == pytest.approx(64)
    await scene.claim(18)
    assert (await info(scene)).oldest_ready_age == pytest.approx(46)


async def test_waiting_for_its_time_is_not_lag(scene: Scene) -> None:
    await scene.enqueue(delay=60.0)
    scene.clock.advance(70)
    await scene.store.jobs.promote_due(10)
    scene.clock.advance(3)
    age = (await info(scene)).oldest_ready_age
    assert age is not None
    assert age == pytest.approx(3) or age == pytest.approx(13)


async def test_pause_and_resume_are_as_good_twice_as_once(scene: Scene) -> None:
    for _ in range(2):
        await scene.store.queues.pause([QUEUE, "new", QUEUE])
    assert (await info(scene)).paused
    assert (await info(scene, "new")).paused
    for _ in range(2):
        await scene.store.queues.resume([QUEUE, "never seen"])
    assert not (await info(scene)).paused
    assert (await info(scene, "new")).paused


async def test_empty_batches_do_nothing(scene: Scene) -> None:
    await scene.store.queues.ensure({})
    await scene.store.queues.pause([])
    await scene.store.queues.resume([])
    assert await scene.store.queues.find() == []


async def test_a_paused_queue_still_takes_jobs_and_lets_running_ones_end(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.store.queues.pause([QUEUE])
    job = await scene.enqueue()
    assert (await scene.finish(claimed)).accepted
    assert await scene.state(job) is JobState.READY


async def test_resume_ends_a_cool_down(scene: Scene) -> None:
    await scene.finish(await scene.running(), WasThrottled(600.0, "slow"))
    await scene.enqueue()
    assert (await info(scene)).cooling_for == pytest.approx(600)
    assert await scene.claim() == []
    await scene.store.queues.resume([QUEUE])
    assert (await info(scene)).cooling_for is None
    assert len(await scene.claim()) == 1


# Pausing more than one queue -----------------------------------------------------------------


async def test_nothing_is_paused_at_first(scene: Scene) -> None:
    assert await scene.store.queues.paused() == Paused()


async def test_all_queues_give_nothing_while_everything_is_paused(scene: Scene) -> None:
    before = await scene.enqueue()
    running = await scene.claim_one()
    await scene.store.queues.pause([EVERY_QUEUE])
    assert await scene.store.queues.paused() == Paused(everything=True)
    after = await scene.enqueue(queue="of-tomorrow")
    assert await scene.claim(10, queue="of-tomorrow") == []
    assert await scene.claim(10) == []
    assert (await scene.finish(running, WasThrottled(0.0, "slow"))).accepted
    await scene.store.queues.resume([EVERY_QUEUE])
    assert await scene.store.queues.paused() == Paused()
    assert [job.id for job in await scene.claim(10, queue="of-tomorrow")] == [after]
    assert before == running.id


async def test_a_queue_that_is_paused_itself_stays_so_when_all_are_resumed(scene: Scene) -> None:
    await scene.enqueue()
    await scene.store.queues.pause([QUEUE, EVERY_QUEUE])
    await scene.store.queues.resume([EVERY_QUEUE])
    assert await scene.claim(10) == []
    await scene.store.queues.resume([QUEUE])
    assert len(await scene.claim(10)) == 1


async def test_a_paused_task_is_passed_over_in_every_queue(scene: Scene) -> None:
    held = [await scene.enqueue("send"), await scene.enqueue("send", queue="mail")]
    others = await scene.enqueue_many(3)
    await scene.store.queues.pause([jobs_of("send"), jobs_of("send")])
    assert await scene.store.queues.paused() == Paused(tasks=("send",))
    tasks = ["send", TASK]
    assert [job.id for job in await scene.claim(10, tasks=tasks)] == others
    assert await scene.claim(10, queue="mail", tasks=tasks) == []
    assert await scene.states(held) == [JobState.READY] * 2
    await scene.store.queues.resume([jobs_of("send")])
    scene.clock.advance(60)
    claimed = [
        *await scene.claim(10, tasks=tasks),
        *await scene.claim(10, queue="mail", tasks=tasks),
    ]
    assert [job.id for job in claimed] == held


async def test_a_worker_that_knows_only_paused_tasks_gets_nothing(scene: Scene) -> None:
    await scene.enqueue()
    await scene.store.queues.pause([jobs_of(TASK)])
    assert await scene.claim(10) == []
    await scene.store.queues.resume([jobs_of(TASK)])
    assert len(await scene.claim(10)) == 1


async def test_what_stands_for_many_is_no_queue(scene: Scene) -> None:
    await scene.store.queues.ensure({"mail": QueueSettings()})
    names = [EVERY_QUEUE, jobs_of("send")]
    await scene.store.queues.pause(names)
    assert [queue.name for queue in await scene.store.queues.find()] == ["mail"]
    assert await scene.store.queues.find(names) == []
    await scene.store.queues.resume(names)
