"""Jobs claimed ahead of their slots: more may be held, never more run, none is kept waiting."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.context import Context
from holdfast.job.ends import WorkerLost
from holdfast.job.ids import JobId, new_job_id, new_worker_id
from holdfast.job.outcome import decide
from holdfast.job.policy import encode_policy
from holdfast.job.record import NewJob
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.records import Want
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import WorkerInfo
from holdfast.worker import permits
from tests.support import process_handlers
from tests.support.flaky import FlakyStore, Line
from tests.support.waiting import slowness, wait_until
from tests.support.working import ONCE, QUICK, Shop

SLOTS = 2


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> float:
    """How slow the machine is. A worker claims as many ahead as ended within a moment, and on a
    machine that is shared by many, fewer jobs end in it than a worker has slots: it lasts longer
    by as much."""
    slow = slowness()
    monkeypatch.setattr(permits, "READ_AHEAD_SECONDS", permits.READ_AHEAD_SECONDS * slow)
    return slow


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


@pytest.mark.usefixtures("slow")
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
    live_store: Store, slow: float
) -> None:
    release = asyncio.Event()

    async def short() -> None: ...

    async def lasting() -> None:
        await release.wait()

    shop = Shop(live_store, short, lasting)
    await fill(live_store, "short", 2_000)
    lasting_ids = await fill(live_store, "lasting", 100)
    which = JobFilter(tasks=("lasting",))
    expected = {JobState.RUNNING: SLOTS, JobState.READY: 100 - SLOTS}

    async def only_slots_are_held() -> bool:
        return await live_store.jobs.count(which) == expected

    async with shop.worker(queues={"default": SLOTS}) as worker:
        await wait_until(only_slots_are_held, 20 * slow, "the rest is ready again")
        release.set()
        await worker.drain()
    for job_id in lasting_ids:
        job = await shop.get(job_id)
        assert (job.state, job.attempts, job.errors) == (JobState.SUCCEEDED, 1, ())


async def test_suspects_run_one_at_a_time_and_are_all_drained(live_store: Store) -> None:
    running = most = 0

    async def suspect() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1

    async def short() -> None: ...

    shop = Shop(live_store, short, suspect)
    for _ in range(5):
        await one_that_lost_its_worker(shop, "suspect")
    await fill(live_store, "short", 500)
    async with shop.worker(queues={"default": 10}) as worker:
        assert await worker.drain() == 505
    assert most == 1


async def test_suspects_that_are_put_off_by_a_slow_store_are_drained_too(live_store: Store) -> None:
    """The store counts their wait from its write, which comes later than the decision."""

    async def suspect() -> None:
        line.late.clear()

    line = Line()
    line.late["finish"] = 0.5
    shop = Shop(FlakyStore(live_store, line), suspect)
    for _ in range(3):
        await one_that_lost_its_worker(shop, "suspect")
    async with shop.worker(queues={"default": 10}) as worker:
        assert await worker.drain() == 3


async def test_a_job_that_may_run_once_never_begins_ahead_of_its_slot(live_store: Store) -> None:
    """It was marked as not begun: were it to run all the same, its death would cost nothing."""
    ahead: list[bool] = []

    async def short() -> None: ...

    async def careful(ctx: Context) -> None:
        ahead.append((await live_store.jobs.live([JobId(ctx.job.id)]))[0].ahead)

    shop = Shop(live_store, short, careful)
    for _ in range(10):
        await fill(live_store, "short", 150)
        await shop.insert("careful", "{}", policy=ONCE)
    async with shop.worker(queues={"default": SLOTS}) as worker:
        assert await worker.drain() == 1_510
    assert ahead == [False] * 10


async def test_what_waits_for_a_child_neither_counts_as_begun_nor_holds_up_the_loop(
    live_store: Store, tmp_path: Path
) -> None:
    line, ended = Line(), 0

    async def quick() -> None:
        nonlocal ended
        ended += 1

    shop = Shop(FlakyStore(live_store, line), quick, wait=process_handlers.wait_for)
    sign = tmp_path / "go"
    waits = [await shop.enqueue("wait", str(sign), policy=ONCE) for _ in range(6)]
    for _ in range(20):
        await shop.enqueue(quick, policy=ONCE)
    async with shop.worker(queues={"default": 10}, processes=1) as worker:
        await wait_until(lambda: ended == 20, 20, "the loop is free")
        before = line.calls.count("claim")
        await asyncio.sleep(0.5)
        assert line.calls.count("claim") - before < 10, "it claims in circles"
        held = [job for job in await live_store.jobs.live(waits) if job.worker_id is not None]
        assert sum(not job.ahead for job in held) <= 1
        sign.touch()
        await worker.drain()
    assert {(await shop.get(job)).state for job in waits} == {JobState.SUCCEEDED}
