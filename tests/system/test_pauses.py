"""The store pauses for longer than a lease, or its clock is moved: nobody died, so nobody pays."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest

from holdfast.app import App
from holdfast.clock import ManualClock
from holdfast.events import Events
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.record import Job, times_taken
from holdfast.job.state import JobState
from holdfast.job.transition import Transition
from holdfast.reconcile import ReconcileOptions, ReconcileService
from holdfast.reconcile.lapsed_leases import LapsedLeasesReconciler
from holdfast.store.contract.records import Verdict
from holdfast.store.contract.store import Store
from holdfast.store.open import open_store
from holdfast.testing.servers import PostgresServer
from holdfast.worker.options import WorkerOptions
from holdfast.worker.worker import Worker
from tests.conformance.builders import Scene
from tests.support import program
from tests.support.flaky import FlakyStore, Line
from tests.support.processes import Fleet, fleet_on
from tests.support.program import once
from tests.support.reconcile_scene import made
from tests.support.waiting import wait_until
from tests.support.working import ONCE, Shop

LEASE = 0.9
JOBS = 24


def all_ran_once(jobs: list[Job]) -> None:
    assert len(jobs) == JOBS
    facts = {(job.state, job.attempts, job.crashes, times_taken(job.fence)) for job in jobs}
    assert facts == {(JobState.SUCCEEDED, 1, 0, 1)}


async def test_a_pause_of_one_and_a_half_leases_is_charged_to_no_running_job(
    sealed_store: Store,
) -> None:
    line, go_on, running = Line(), asyncio.Event(), 0

    async def slow() -> None:
        nonlocal running
        running += 1
        await go_on.wait()

    flaky = FlakyStore(sealed_store, line)
    shop = Shop(flaky, slow)
    ids = [await shop.enqueue(slow, policy=ONCE) for _ in range(JOBS)]
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(worker_that_reclaims(shop, flaky))
        await wait_until(lambda: running == JOBS, 10, "all are running")
        line.cut = True
        await asyncio.sleep(1.5 * LEASE)
        line.cut = False
        await asyncio.sleep(LEASE)  # whoever would reclaim them has had the time to
        go_on.set()
        for job_id in ids:
            await shop.until(job_id, lambda job: job.ended)
    all_ran_once(await sealed_store.jobs.get(ids))
    assert running == JOBS


def worker_that_reclaims(shop: Shop, store: Store) -> Worker:
    """As the app makes one, with sweeps in step with the short lease."""
    worker: Worker

    def own_id() -> WorkerId:
        return worker.id

    options = ReconcileOptions(lapsed_leases=0.05, worker=own_id)
    service = ReconcileService(store, Events(), options)
    chosen = WorkerOptions({"default": JOBS // 2}, lease=LEASE)
    worker = Worker(store, shop.registry, chosen, shop.events, [service])
    return worker


async def paused_fleet(fleet: Fleet) -> list[JobId]:
    """Two processes that run single-attempt jobs until a file appears."""
    ids = [handle.id for handle in await once.enqueue_many([(str(fleet.folder / "go"),)] * JOBS)]
    await fleet.workers(2, slots=JOBS // 2, lease=2.0)
    await wait_until(lambda: len(fleet.diary.entries("started")) == JOBS, 15, "all are running")
    return ids


async def after_the_pause(fleet: Fleet, app: App, ids: list[JobId]) -> None:
    await asyncio.sleep(3.0)  # whoever would reclaim them has had the time to
    (fleet.folder / "go").touch()

    async def all_ended() -> bool:
        return all(job.ended for job in await app.store.jobs.get(ids))

    await wait_until(all_ended, 20, "all jobs end", look_every=0.1)
    all_ran_once(await app.store.jobs.get(ids))
    assert len(fleet.diary.entries("started")) == JOBS
    assert fleet.diary.events("worker.lease_lapsed"), "no lease lapsed: the pause was too short"


async def test_a_users_long_write_transaction_is_charged_to_no_running_job(
    tmp_path: Path,
) -> None:
    path = tmp_path / "jobs.db"
    url = f"sqlite:///{path}"
    await open_store(url).migrate()
    with fleet_on(url, tmp_path) as fleet, program.app.using_store(url):
        async with program.app as app:
            ids = await paused_fleet(fleet)
            with closing(sqlite3.connect(path, isolation_level=None)) as user:
                user.execute("begin immediate")
                await asyncio.sleep(3.0)
                user.execute("commit")
            await after_the_pause(fleet, app, ids)


async def test_a_postgres_that_stands_still_is_charged_to_no_running_job(
    durable_postgres: PostgresServer, tmp_path: Path
) -> None:
    url = durable_postgres.new_database()
    await open_store(url).migrate()
    with fleet_on(url, tmp_path) as fleet, program.app.using_store(url):
        async with program.app as app:
            ids = await paused_fleet(fleet)
            durable_postgres.halt()
            await asyncio.sleep(3.0)
            durable_postgres.resume()
            await after_the_pause(fleet, app, ids)


# The store's clock


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> Scene:
    return await Scene.on(store, clock)


async def beat(scene: Scene, *workers: WorkerId) -> None:
    for worker in workers:
        await scene.store.workers.heartbeat(worker, 30, [])


def reclaimer(scene: Scene, worker: WorkerId) -> LapsedLeasesReconciler:
    return made(LapsedLeasesReconciler, scene.store, worker=lambda: worker)


async def test_a_clock_that_steps_forward_lets_live_workers_be_heard_first(scene: Scene) -> None:
    mine, others = await scene.hire(), await scene.hire()
    job = await scene.running(worker=others, policy=ONCE)
    scene.clock.advance(45)
    sweep = reclaimer(scene, mine)
    assert (await sweep.run_once()).mended == 0  # lapsed itself
    await beat(scene, mine)
    assert (await sweep.run_once()).mended == 0  # its service began a moment ago
    await beat(scene, others)
    scene.clock.advance(10)
    await beat(scene, mine, others)
    assert (await sweep.run_once()).found == 0
    assert (await scene.finish(job)).accepted


async def test_who_does_not_come_back_after_an_outage_loses_its_jobs_uncharged(
    scene: Scene,
) -> None:
    mine, others = await scene.hire(), await scene.hire()
    job = await scene.running(worker=others, policy=ONCE)
    scene.clock.advance(45)
    sweep = reclaimer(scene, mine)
    for _ in range(2):
        await beat(scene, mine)
        assert (await sweep.run_once()).mended == 0
        scene.clock.advance(8)
    await beat(scene, mine)
    assert (await sweep.run_once()).mended == 1
    found = await scene.job(job.id)
    assert (found.state, found.attempts, found.crashes) == (JobState.READY, 0, 0)
    assert found.fence == job.fence + 1


async def test_an_ordinary_death_is_charged_in_the_first_sweep_after_the_lease(
    scene: Scene,
) -> None:
    mine, others = await scene.hire(), await scene.hire()
    job = await scene.running(worker=others, policy=ONCE)
    sweep = reclaimer(scene, mine)
    for _ in range(3):
        scene.clock.advance(10.1)
        await beat(scene, mine)
    assert (await sweep.run_once()).mended == 1
    found = await scene.job(job.id)
    assert (found.state, found.attempts, found.crashes) == (JobState.FAILED, 1, 1)


async def test_a_sweep_that_judged_before_the_pause_takes_nothing_after_it(scene: Scene) -> None:
    """A write that waited behind a user's transaction finds that its worker has had a break."""
    mine, others = await scene.hire(), await scene.hire()
    await scene.running(worker=others, policy=ONCE)
    for _ in range(3):
        scene.clock.advance(10.1)
        await beat(scene, mine)

    class Late(LapsedLeasesReconciler):
        async def apply(self, moves: Sequence[Transition]) -> list[Verdict]:
            scene.clock.advance(45)
            await beat(scene, mine)
            return await super().apply(moves)

    late = made(Late, scene.store, worker=lambda: mine)
    assert (await late.run_once()).refused == 1
