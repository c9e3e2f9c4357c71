"""Jobs claimed ahead of their slots: more may be held, never more run, none is kept waiting."""

from __future__ import annotations

import asyncio

from holdfast.ends import WorkerLost
from holdfast.job import JobId, JobState, NewJob, encode_policy, new_job_id, new_worker_id
from holdfast.outcome import decide
from holdfast.store.contract import Store
from holdfast.store.records import JobFilter, Want, WorkerInfo
from tests.system.working import QUICK, Shop
from tests.waiting import wait_until

SLOTS = 2


async def fill(store: Store, task: str, count: int) -> list[JobId]:
    policy = encode_policy(QUICK)
    jobs = [NewJob(new_job_id(), task, "default", "{}", policy) for _ in range(count)]
    await store.jobs.insert(jobs)
    return [job.id for job in jobs]


async def one_that_lost_its_worker(shop: Shop, task: str) -> JobId:
    job_id = await shop.insert(task, "{}")
    worker = new_worker_id()
    info = WorkerInfo(worker, "w", "h", 1, {"default": 1}, (task,), "0")
    await shop.store.workers.register(info, 30)
    [claimed] = await shop.store.jobs.claim(worker, [Want("default", 1)], [task])
    [verdict] = await shop.store.jobs.finish([decide(claimed, WorkerLost())])
    assert verdict.accepted
    await shop.store.workers.deregister(worker)
    return job_id


async def test_short_handlers_are_claimed_ahead_but_run_only_in_their_slots(
    live_store: Store,
) -> None:
    running = most = held = 0

    async def short() -> None:
        nonlocal running, most, held
        running += 1
        most = max(most, running)
        held = max(held, int(str(worker.health()["running"])))
        await asyncio.sleep(0)
        running -= 1

    shop = Shop(live_store, short)
    await fill(live_store, "short", 2_000)
    async with shop.worker(queues={"default": SLOTS}) as worker:
        assert await worker.drain() == 2_000
    assert most == SLOTS
    assert held > 2 * SLOTS


async def test_jobs_claimed_ahead_of_handlers_that_turn_slow_go_back_unspent(
    live_store: Store,
) -> None:
    release = asyncio.Event()

    async def short() -> None: ...

    async def slow() -> None:
        await release.wait()

    shop = Shop(live_store, short, slow)
    await fill(live_store, "short", 2_000)
    slow_ids = await fill(live_store, "slow", 100)
    which = JobFilter(tasks=("slow",))
    expected = {JobState.RUNNING: SLOTS, JobState.READY: 100 - SLOTS}

    async def only_slots_are_held() -> bool:
        return await live_store.jobs.count(which) == expected

    async with shop.worker(queues={"default": SLOTS}) as worker:
        await wait_until(only_slots_are_held, 20, "the rest is ready again")
        release.set()
        await worker.drain()
    for job_id in slow_ids:
        job = await shop.get(job_id)
        assert (job.state, job.attempts, job.errors) == (JobState.SUCCEEDED, 1, ())


async def test_nothing_is_held_ahead_beside_a_job_that_was_running_when_a_worker_died(
    live_store: Store,
) -> None:
    beside: list[int] = []

    async def short() -> None: ...

    async def suspect() -> None:
        beside.append(int(str(worker.health()["running"])))

    shop = Shop(live_store, short, suspect)
    lost = await one_that_lost_its_worker(shop, "suspect")
    await fill(live_store, "short", 1_500)
    await live_store.jobs.reschedule([lost], 0)  # in the midst of them, when many are held
    await fill(live_store, "short", 1_500)
    async with shop.worker(queues={"default": SLOTS}) as worker:
        assert await worker.drain() == 3_001
    assert beside
    assert max(beside) <= SLOTS
    which = JobFilter(tasks=("short",))
    assert await live_store.jobs.count(which) == {JobState.SUCCEEDED: 3_000}
