"""Workers: their leases, what a heartbeat tells them, and how they are forgotten."""

from __future__ import annotations

import pytest

from holdfast.job.ends import HandedBack, WorkerLost
from holdfast.job.ids import JobId, WorkerId, new_job_id, new_worker_id
from holdfast.store.contract.workers import Beat, Held, WorkerInfo
from tests.conformance.builders import RETURNED, Scene, ids, new_worker


async def worker_ids(scene: Scene) -> list[WorkerId]:
    return [worker.id for worker in await scene.store.workers.find()]


async def info(scene: Scene, worker: WorkerId) -> WorkerInfo:
    [found] = [one for one in await scene.store.workers.find() if one.id == worker]
    return found


async def beat(scene: Scene, worker: WorkerId, *held: tuple[JobId, int]) -> Beat:
    return await scene.store.workers.heartbeat(worker, 30, [Held(*one) for one in held])


async def test_a_registered_worker_is_listed_as_it_is(scene: Scene) -> None:
    given = new_worker(
        name="größe-1",
        host="box",
        pid=4242,
        queues={"mail": 10, "default": 50},
        tasks=("a", "b"),
        version="1.2.3",
    )
    await scene.store.workers.register(given, 30)
    found = await info(scene, given.id)
    assert (found.name, found.host, found.pid) == ("größe-1", "box", 4242)
    assert (found.queues, found.tasks, found.version) == (given.queues, ("a", "b"), "1.2.3")
    assert found.started_at == found.heartbeat_at == scene.clock.now
    assert found.expires_in == pytest.approx(30)
    assert found.alive


async def test_workers_are_listed_oldest_first(scene: Scene) -> None:
    hired = [scene.worker]
    for _ in range(3):
        scene.clock.advance(1)
        hired.append(await scene.hire())
    assert await worker_ids(scene) == hired


async def test_a_registration_whose_reply_was_lost_can_be_repeated(scene: Scene) -> None:
    worker = new_worker()
    for _ in range(2):
        await scene.store.workers.register(worker, 30)
    assert await worker_ids(scene) == [scene.worker, worker.id]


async def test_a_worker_counts_what_it_runs(scene: Scene) -> None:
    worker = await scene.hire()
    await scene.enqueue_many(3)
    [first, *_] = await scene.claim(3, worker=worker)
    assert (await info(scene, worker)).running == 3
    await scene.finish(first, RETURNED)
    assert (await info(scene, worker)).running == 2
    assert (await info(scene, scene.worker)).running == 0


async def test_a_lease_lapses_by_the_stores_clock(scene: Scene) -> None:
    worker = await scene.hire(lease=30)
    scene.clock.advance(29)
    assert (await info(scene, worker)).alive
    scene.clock.advance(2)
    lapsed = await info(scene, worker)
    assert not lapsed.alive
    assert lapsed.expires_in == pytest.approx(-1)


async def test_a_heartbeat_extends_the_lease(scene: Scene) -> None:
    worker = await scene.hire(lease=30)
    scene.clock.advance(20)
    assert (await beat(scene, worker)) == Beat(True)
    found = await info(scene, worker)
    assert found.expires_in == pytest.approx(30)
    assert (found.started_at, found.heartbeat_at) == (scene.after(-20), scene.clock.now)


async def test_a_lapsed_worker_may_come_back(scene: Scene) -> None:
    worker = await scene.hire(lease=30)
    scene.clock.advance(1000)
    assert (await beat(scene, worker)).known
    assert (await info(scene, worker)).alive


async def test_a_worker_whose_row_is_gone_is_told_so(scene: Scene) -> None:
    worker = await scene.hire()
    claimed = await scene.running(worker=worker)
    await scene.lose(worker)
    answer = await beat(scene, worker, (claimed.id, claimed.fence))
    assert not answer.known
    assert worker not in await worker_ids(scene)


async def test_a_stranger_is_told_so(scene: Scene) -> None:
    assert not (await beat(scene, new_worker_id())).known


async def test_a_worker_hears_nothing_about_jobs_that_are_well(scene: Scene) -> None:
    claimed = await scene.running()
    assert await beat(scene, scene.worker, (claimed.id, claimed.fence)) == Beat(True)


async def test_a_worker_hears_of_attempts_it_has_lost(scene: Scene) -> None:
    worker = await scene.hire(lease=30)
    await scene.enqueue_many(2)
    kept, lost = await scene.claim(2, worker=worker)
    scene.clock.advance(31)
    await scene.reclaim(await scene.live(lost.id), WorkerLost())
    answer = await beat(scene, worker, (kept.id, kept.fence), (lost.id, lost.fence))
    assert answer == Beat(True, lost=(lost.id,))


async def test_an_older_fence_is_lost_even_at_the_same_worker(scene: Scene) -> None:
    first = await scene.ended(HandedBack())
    second = await scene.claim_one()
    assert (await beat(scene, scene.worker, (first.id, first.fence))).lost == (first.id,)
    assert (await beat(scene, scene.worker, (second.id, second.fence))).lost == ()


async def test_an_attempt_that_ended_or_never_was_is_lost(scene: Scene) -> None:
    ended, unknown = await scene.ended(RETURNED), new_job_id()
    answer = await beat(scene, scene.worker, (ended.id, ended.fence), (unknown, 1))
    assert set(answer.lost) == {ended.id, unknown}


async def test_a_worker_does_not_hear_of_anothers_cancels(scene: Scene) -> None:
    worker = await scene.hire()
    mine, other = await scene.running(worker=worker), await scene.running()
    await scene.store.jobs.request_cancel([mine.id, other.id])
    assert (await beat(scene, worker, (mine.id, mine.fence))).cancel == (mine.id,)


async def test_a_heartbeat_may_carry_thousands_of_attempts(scene: Scene) -> None:
    await scene.enqueue_many(2_000)
    claimed = [*await scene.claim(1_000), *await scene.claim(1_000)]
    gone = claimed[::100]
    for job in gone:
        await scene.finish(job, RETURNED)
    answer = await beat(scene, scene.worker, *((job.id, job.fence) for job in claimed))
    assert sorted(answer.lost) == sorted(ids(gone))


async def test_a_worker_that_leaves_twice_left_once(scene: Scene) -> None:
    worker = await scene.hire()
    for _ in range(2):
        await scene.lose(worker)
    assert await worker_ids(scene) == [scene.worker]


async def test_what_a_leaving_worker_holds_becomes_reclaimable(scene: Scene) -> None:
    worker = await scene.hire()
    claimed = await scene.running(worker=worker)
    await scene.lose(worker)
    assert ids(await scene.store.jobs.lapsed_leases(10)) == [claimed.id]


async def test_a_long_lapsed_worker_is_swept(scene: Scene) -> None:
    worker = await scene.hire(lease=30)
    scene.clock.advance(89)
    assert await scene.store.workers.sweep(10, lapsed_for=60) == 0
    scene.clock.advance(2)
    assert await scene.store.workers.sweep(10, lapsed_for=60) == 1
    assert worker not in await worker_ids(scene)


async def test_a_worker_that_still_holds_a_job_is_not_swept(scene: Scene) -> None:
    worker = await scene.hire(lease=30)
    claimed = await scene.running(worker=worker)
    scene.clock.advance(1000)
    assert await scene.store.workers.sweep(10, lapsed_for=60) == 0
    await scene.reclaim(await scene.live(claimed.id), WorkerLost())
    assert await scene.store.workers.sweep(10, lapsed_for=60) == 1


async def test_a_sweep_is_bounded_and_spares_the_living(scene: Scene) -> None:
    for _ in range(5):
        await scene.hire(lease=30)
    scene.clock.advance(1000)
    assert [await scene.store.workers.sweep(3, lapsed_for=60) for _ in range(3)] == [3, 2, 0]
    assert await worker_ids(scene) == [scene.worker]


async def test_a_worker_is_alive_since_it_registered(scene: Scene) -> None:
    worker = await scene.hire(lease=30)
    started = scene.clock.now
    for _ in range(4):
        scene.clock.advance(15)
        await beat(scene, worker)
    found = await info(scene, worker)
    assert (found.started_at, found.alive_since, found.lease) == (started, started, 30)
    assert found.read_at == scene.clock.now


@pytest.mark.parametrize("seconds", [16, 31, 1000, -5], ids=["late", "lapsed", "long", "back"])
async def test_a_break_starts_a_workers_service_anew(scene: Scene, seconds: float) -> None:
    worker = await scene.hire(lease=30)
    scene.clock.advance(seconds)
    await beat(scene, worker)
    assert (await info(scene, worker)).alive_since == scene.clock.now


async def test_a_repeated_registration_is_no_break(scene: Scene) -> None:
    worker = new_worker()
    await scene.store.workers.register(worker, 30)
    scene.clock.advance(5)
    await scene.store.workers.register(worker, 30)
    found = await info(scene, worker.id)
    assert found.alive_since == found.started_at == scene.after(-5)


async def test_no_lease_lasts_longer_than_its_length(scene: Scene) -> None:
    """The clock was set back by an hour: a dead worker's jobs must not be held for as long."""
    worker = await scene.hire(lease=30)
    claimed = await scene.running(worker=worker)
    scene.clock.advance(-3600)
    assert (await info(scene, worker)).expires_in == pytest.approx(3630)
    await scene.store.workers.sweep(10, lapsed_for=60)
    assert (await info(scene, worker)).expires_in == pytest.approx(30)
    scene.clock.advance(31)
    assert ids(await scene.store.jobs.lapsed_leases(10)) == [claimed.id]
