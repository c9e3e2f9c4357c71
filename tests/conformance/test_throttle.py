"""Throttling: one job's 'slow down' cools its whole queue, by a curve with a memory."""

from __future__ import annotations

import pytest

from holdfast.job.ends import WasThrottled
from holdfast.job.outcome import decide
from holdfast.job.record import Claimed
from holdfast.job.state import JobState
from holdfast.store.contract.queues import QueueInfo, QueueSettings
from tests.conformance.builders import QUEUE, Scene, accepted

MEMORY = 120.0


async def queue(scene: Scene, name: str = QUEUE) -> QueueInfo:
    [found] = await scene.store.queues.find([name])
    return found


async def throttle(scene: Scene, *claimed: Claimed, hint: float = 0.0) -> None:
    moves = [decide(job, WasThrottled(hint, "slow down")) for job in claimed]
    assert all(accepted(await scene.store.jobs.finish(moves)))


async def throttle_anew(scene: Scene, hint: float = 0.0) -> float:
    """Another job is throttled in a new window; returns how long the queue cools."""
    await scene.enqueue(priority=-1)
    await throttle(scene, await scene.claim_one(), hint=hint)
    cooling = (await queue(scene)).cooling_for
    assert cooling is not None
    return cooling


async def test_a_throttled_job_waits_and_its_queue_cools(scene: Scene) -> None:
    claimed = await scene.running()
    await throttle(scene, claimed, hint=30.0)
    job = await scene.job(claimed.id)
    assert (job.state, job.due_at, job.attempts) == (JobState.SCHEDULED, scene.after(30), 0)
    cooling = await queue(scene)
    assert cooling.throttles == 1
    assert cooling.cooling_for == pytest.approx(30)


async def test_without_a_hint_the_queues_own_base_counts(scene: Scene) -> None:
    await scene.store.queues.tune(QUEUE, QueueSettings(throttle_base=4.0))
    assert await throttle_anew(scene) == pytest.approx(4)


async def test_each_new_window_is_twice_as_long_up_to_the_cap(scene: Scene) -> None:
    await scene.store.queues.tune(QUEUE, QueueSettings(throttle_base=2.0, throttle_cap=10.0))
    windows = []
    for _ in range(5):
        windows.append(await throttle_anew(scene))
        scene.clock.advance(windows[-1])
    assert windows == [pytest.approx(seconds) for seconds in (2, 4, 8, 10, 10)]
    assert (await queue(scene)).throttles == 5


async def test_many_windows_do_not_overflow_the_curve(scene: Scene) -> None:
    await scene.store.queues.tune(QUEUE, QueueSettings(throttle_base=1.0, throttle_cap=5.0))
    for _ in range(80):
        scene.clock.advance(await throttle_anew(scene))
    assert await throttle_anew(scene) == pytest.approx(5)


async def test_a_longer_hint_beats_the_curve(scene: Scene) -> None:
    assert await throttle_anew(scene, hint=500.0) == pytest.approx(500)


async def test_siblings_inside_a_window_do_not_raise_the_count(scene: Scene) -> None:
    await scene.enqueue_many(4)
    claimed = await scene.claim(4)
    await throttle(scene, claimed[0], hint=10.0)
    for sibling in claimed[1:]:
        await throttle(scene, sibling, hint=10.0)
    assert (await queue(scene)).throttles == 1


async def test_siblings_in_one_batch_raise_the_count_once(scene: Scene) -> None:
    await scene.enqueue_many(4)
    await throttle(scene, *await scene.claim(4), hint=10.0)
    cooling = await queue(scene)
    assert cooling.throttles == 1
    assert cooling.cooling_for == pytest.approx(10)


async def test_a_sibling_can_extend_the_window_but_not_shorten_it(scene: Scene) -> None:
    await scene.enqueue_many(3)
    first, shorter, longer = await scene.claim(3)
    await throttle(scene, first, hint=10.0)
    await throttle(scene, shorter, hint=5.0)
    assert (await queue(scene)).cooling_for == pytest.approx(10)
    await throttle(scene, longer, hint=25.0)
    assert (await queue(scene)).cooling_for == pytest.approx(25)


async def test_the_longest_hint_of_a_batch_counts(scene: Scene) -> None:
    await scene.enqueue_many(3)
    claimed = await scene.claim(3)
    hints = (10.0, 40.0, 20.0)
    moves = [decide(j, WasThrottled(hint, "")) for j, hint in zip(claimed, hints, strict=True)]
    await scene.store.jobs.finish(moves)
    assert (await queue(scene)).cooling_for == pytest.approx(40)


async def test_a_flapping_limiter_keeps_its_curve(scene: Scene) -> None:
    scene.clock.advance(await throttle_anew(scene))
    scene.clock.advance(MEMORY - 1)
    await scene.ended()
    await throttle_anew(scene)
    assert (await queue(scene)).throttles == 2


async def test_after_two_quiet_minutes_the_count_begins_anew(scene: Scene) -> None:
    for _ in range(3):
        scene.clock.advance(await throttle_anew(scene))
    scene.clock.advance(MEMORY + 1)
    assert await throttle_anew(scene) == pytest.approx(1)
    assert (await queue(scene)).throttles == 1


async def test_another_queue_stays_warm(scene: Scene) -> None:
    await scene.enqueue(queue="other")
    await throttle_anew(scene, hint=30.0)
    assert (await queue(scene, "other")).cooling_for is None
    assert len(await scene.claim(queue="other")) == 1


async def test_two_queues_in_one_batch_cool_each_by_its_own_hint(scene: Scene) -> None:
    a, b = await scene.running(queue="a"), await scene.running(queue="b")
    moves = [decide(a, WasThrottled(10.0, "")), decide(b, WasThrottled(20.0, ""))]
    await scene.store.jobs.finish(moves)
    assert (await queue(scene, "a")).cooling_for == pytest.approx(10)
    assert (await queue(scene, "b")).cooling_for == pytest.approx(20)


async def test_a_cooled_queue_says_so(scene: Scene) -> None:
    scene.clock.advance(await throttle_anew(scene, hint=30.0))
    assert (await queue(scene)).cooling_for is None
