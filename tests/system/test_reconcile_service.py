"""All reconcilers as one service: complete, on time, cheap when idle, and gone when stopped."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import holdfast.reconcile
from holdfast.background import reconciler as reconciler_module
from holdfast.background.counters import LoopCounters
from holdfast.background.reconciler import Reconciler
from holdfast.background.replicas import Replicas
from holdfast.clock import ManualClock
from holdfast.events import Event, Events
from holdfast.job.ids import new_worker_id
from holdfast.job.state import JobState
from holdfast.reconcile import ReconcileOptions, ReconcileService
from holdfast.reconcile.lapsed_leases import LOOK_AGAIN_SECONDS, LapsedLeasesReconciler
from holdfast.reconcile.standard import STANDARD, standard_reconcilers
from holdfast.schedule import evaluator as evaluator_module
from holdfast.schedule.evaluator import Evaluator
from holdfast.store.contract.store import Store
from holdfast.store.contract.wakeups import Topic, Wakeup
from tests.conformance.builders import Scene, new_job
from tests.conformance.planning import definition
from tests.support.backends import Backend, opened
from tests.support.flaky import FlakyStore, Line
from tests.support.leaks import nothing_leaks
from tests.support.reconcile_scene import counting
from tests.support.waiting import slowness, wait_until

SOON = 10.0


def every_reconciler() -> set[type[Reconciler]]:
    """All concrete reconcilers that the package defines, in whatever file."""
    found: set[type[Reconciler]] = set()
    for module in pkgutil.iter_modules(holdfast.reconcile.__path__, "holdfast.reconcile."):
        for each in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(each) and issubclass(each, Reconciler):
                found.add(each)
    return {each for each in found if not inspect.isabstract(each)}


def test_every_reconciler_that_exists_is_scheduled() -> None:
    assert every_reconciler() == set(STANDARD)
    assert len({each.name for each in STANDARD}) == len(STANDARD)


@pytest.mark.parametrize("each", STANDARD)
def test_a_reconciler_and_its_class_are_named_as_its_file(each: type[Reconciler]) -> None:
    assert each.__module__ == f"holdfast.reconcile.{each.name}"
    assert each.__name__ == f"{each.name.title().replace('_', '')}Reconciler"


async def test_one_pass_over_all_brings_a_lost_job_back(store: Store, clock: ManualClock) -> None:
    scene = await Scene.on(store, clock)
    service = ReconcileService(store, Events())
    worker = await scene.hire(30)
    running = await scene.running(worker=worker)
    clock.advance(31)
    await service.run_once()
    clock.advance(10)
    tallies = await service.run_once()
    assert tallies["promotion"].mended == 1
    assert await scene.state(running.id) is JobState.READY
    assert service.counters["lapsed_leases"].items.mended == 1


async def test_delayed_jobs_become_ready_within_100_ms_of_their_time(live_store: Store) -> None:
    seen: list[Event] = []
    service = ReconcileService(live_store, Events(seen.append))
    ready = asyncio.Event()

    def notice(wakeup: Wakeup) -> None:
        if (wakeup.topic, wakeup.name) == (Topic.READY, "default"):
            ready.set()

    unsubscribe = await live_store.wakeups.subscribe(notice)
    await service.start()
    late: list[float] = []
    for delay in (0.5, 0.1, 0.3, 0.2, 0.15):
        ready.clear()
        await live_store.jobs.insert([new_job(delay=delay)])
        inserted = time.monotonic()
        await asyncio.wait_for(ready.wait(), SOON)
        late.append(time.monotonic() - inserted - delay)
    await service.stop()
    unsubscribe()
    assert statistics.median(late) < 0.1 * slowness(), late
    assert min(late) > -0.05, "ready before its time"
    assert "supervisor.did_not_stop" not in {event.name for event in seen}


async def test_a_deadline_known_at_the_start_is_kept_on_time(live_store: Store) -> None:
    [inserted] = await live_store.jobs.insert([new_job(deadline_in=0.3)])
    seen: asyncio.Queue[Event] = asyncio.Queue()
    events = Events(seen.put_nowait)
    service = ReconcileService(live_store, events, ReconcileOptions(deadline=60.0))
    started = time.monotonic()
    await service.start()
    while (await asyncio.wait_for(seen.get(), SOON)).fields.get("reconciler") != "deadline":
        continue
    elapsed = time.monotonic() - started
    await asyncio.wait_for(service.stop(), SOON / 2)
    [job] = await live_store.jobs.get([inserted.id])
    assert job.state is JobState.EXPIRED
    assert elapsed < SOON


async def test_an_idle_fleet_of_reconcilers_costs_at_most_two_statements_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: Counter[str] = Counter()
    elapsed: dict[Reconciler, float] = {}
    minute = 60.0

    async def pass_time(seconds: float, stop: asyncio.Event, *more: asyncio.Event) -> None:
        """Each loop's own minute passes at once: its waits are added up."""
        task = asyncio.current_task()
        each = next(each for each in fleet if task is not None and each.name == task.get_name())
        elapsed[each] = elapsed.get(each, 0.0) + max(0.0, seconds)
        if elapsed[each] >= minute:
            stop.set()

    monkeypatch.setattr(reconciler_module, "pause", pass_time)
    async with opened("sqlite://") as store:
        fleet = standard_reconcilers(counting(store, calls), Events())
        async with asyncio.TaskGroup() as group:
            for each in fleet:
                group.create_task(each.run(asyncio.Event()), name=each.name)
    assert calls.keys() >= {"lapsed_leases", "overdue_attempts", "past_deadline", "promote_due"}
    assert calls.total() <= minute, calls


@pytest.mark.parametrize(("replicas", "least", "most"), [(1, 165, 200), (100, 15, 25)])
async def test_followers_of_a_large_fleet_seldom_ask_for_the_lead(
    monkeypatch: pytest.MonkeyPatch, replicas: int, least: int, most: int
) -> None:
    line, now = Line(), 0.0

    async def pass_time(seconds: float, stop: asyncio.Event, *more: asyncio.Event) -> None:
        nonlocal now
        now += seconds
        if now > 600:
            stop.set()

    monkeypatch.setattr(evaluator_module, "pause", pass_time)
    async with opened("sqlite://") as store:
        await store.schedules.declare({"yearly": definition("0 0 1 1 *")})
        await store.workers.lead("schedules", new_worker_id(), 3_600)
        evaluator = Evaluator(
            FlakyStore(store, line), Events(), replicas=Replicas(replicas), monotonic=lambda: now
        )
        await evaluator.run(asyncio.Event())
    assert least <= line.calls.count("lead") <= most


async def test_nobody_asks_for_the_lead_while_there_are_no_schedules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But at the start, when nothing is known. The first schedule is led as soon as it is read."""
    line, now, asked = Line(), 0.0, [0]

    async def pass_time(seconds: float, stop: asyncio.Event, *more: asyncio.Event) -> None:
        nonlocal now
        now += seconds
        if now > 600 and len(asked) == 1:
            asked.append(line.calls.count("lead"))
            await store.schedules.declare({"yearly": definition("0 0 1 1 *")})
        if now > 700:
            stop.set()

    monkeypatch.setattr(evaluator_module, "pause", pass_time)
    async with opened("sqlite://") as store:
        await store.workers.lead("schedules", new_worker_id(), 3_600)
        evaluator = Evaluator(FlakyStore(store, line), Events(), monotonic=lambda: now)
        await evaluator.run(asyncio.Event())
        assert asked == [0, 1]
        assert line.calls.count("lead") > 15


async def test_a_fleet_of_100_sweeps_ten_times_as_often_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: Counter[str] = Counter()
    elapsed = 0.0

    async def pass_time(seconds: float, stop: asyncio.Event, *more: asyncio.Event) -> None:
        nonlocal elapsed
        elapsed += max(0.0, seconds)
        if elapsed >= 1_000 * ReconcileOptions().lapsed_leases:
            stop.set()

    monkeypatch.setattr(reconciler_module, "pause", pass_time)
    async with opened("sqlite://") as store:
        sweep = LapsedLeasesReconciler(
            counting(store, calls), Events(), ReconcileOptions(), replicas=Replicas(100)
        )
        await sweep.run(asyncio.Event())
    assert 100 <= calls["lapsed_leases"] <= 115  # of the 1,000 intervals that passed


@asynccontextmanager
async def sweeping_once(store: Store, replicas: Replicas) -> AsyncIterator[LoopCounters]:
    """The counters of the sweep for lapsed leases of a service that has just swept."""
    service = ReconcileService(store, Events(), replicas=replicas)
    sweeps = service.counters["lapsed_leases"]
    await service.start()
    await wait_until(lambda: sweeps.ticks == 1, SOON, "the first sweep")
    try:
        yield sweeps
    finally:
        await service.stop()


async def test_a_fleet_that_grew_smaller_looks_for_lost_jobs_at_once(live_store: Store) -> None:
    """And not at the slow pace of the fleet that it was."""
    replicas = Replicas(200)
    async with sweeping_once(live_store, replicas) as sweeps:
        await asyncio.sleep(0.1)
        replicas.recount(1)
        await wait_until(lambda: sweeps.ticks == 2, SOON, "another sweep")


async def test_a_poll_that_tells_of_a_lapsed_worker_wakes_the_sweep(live_store: Store) -> None:
    """As long as it does, even if another worker came in the place of the dead one."""
    replicas = Replicas(2)
    async with sweeping_once(live_store, replicas) as sweeps:
        for ticks in (2, 3):
            await asyncio.sleep(0.1)
            replicas.recount(2, lapsed=True)
            await wait_until(lambda ticks=ticks: sweeps.ticks == ticks, 4.0, "another sweep")


async def test_a_sweep_that_may_not_take_jobs_back_yet_looks_again_soon(
    store: Store, clock: ManualClock
) -> None:
    """A worker whose own service began after the other lapsed waits half a lease first."""
    scene = await Scene.on(store, clock)
    dead = await scene.hire(lease=30)
    await scene.running(worker=dead)
    clock.advance(31)
    judge = await scene.hire(lease=30)
    sweep = LapsedLeasesReconciler(store, Events(), ReconcileOptions(worker=lambda: judge))
    assert (await sweep.run_once()).skipped == 1
    assert await sweep.due_in() == LOOK_AGAIN_SECONDS
    clock.advance(14)
    await store.workers.heartbeat(judge, 30, [])
    clock.advance(2)
    assert (await sweep.run_once()).mended == 1
    assert await sweep.due_in() is None


async def test_the_service_starts_and_stops_twice_and_leaves_nothing(backend: Backend) -> None:
    url = await backend.empty()
    async with nothing_leaks(), opened(url) as store:
        service = ReconcileService(store, Events())
        await service.stop()
        await asyncio.gather(service.start(), service.start())
        assert loops_running() == {f"holdfast-{each.name}" for each in STANDARD}
        await asyncio.gather(service.stop(), service.stop())
        assert loops_running() == set()


def loops_running() -> set[str]:
    names = {f"holdfast-{each.name}" for each in STANDARD}
    return {task.get_name() for task in asyncio.all_tasks()} & names


async def test_a_stopped_service_gives_its_leadership_back(live_store: Store) -> None:
    seen: asyncio.Queue[object] = asyncio.Queue()
    events = Events(lambda event: seen.put_nowait((event.name, event.fields.get("role"))))
    service = ReconcileService(live_store, events)
    await service.start()
    while await asyncio.wait_for(seen.get(), SOON) != ("leader.elected", "retention"):
        continue
    successor = ReconcileOptions().owner
    assert not await live_store.workers.lead("retention", successor, 1.0)
    await service.stop()
    assert await live_store.workers.lead("retention", successor, 1.0)
