"""Defects of other queues with limits that must not come back, one test each, by their names."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.clock import ManualClock
from holdfast.job.ends import Reclaimed, WasThrottled
from holdfast.job.outcome import decide
from holdfast.job.passing import total_name
from holdfast.limits.model import Budget, Concurrency, Rate
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.store import Store
from tests.conformance.builders import QUEUE, RAISED, RETURNED, Scene, new_job
from tests.conformance.limiting import (
    at_cost,
    begun,
    bucket,
    define,
    in_use,
    limited,
    nothing_is_wrong,
    of,
    through,
)
from tests.support.backends import siblings


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> Scene:
    return await Scene.on(store, clock)


async def test_a_quota_is_released_at_the_end(scene: Scene) -> None:
    """FlowFabric counts concurrency at admission and never gives it back when the work is done."""
    await limited(scene, tenant=2)
    for _ in range(5):
        await scene.store.jobs.finish(
            [decide(job, RETURNED) for job in await begun(scene, 2, "tenant:a")]
        )
        assert await in_use(scene, "tenant:a") == 0


async def test_a_budget_is_enforced_where_jobs_begin(scene: Scene) -> None:
    """FlowFabric stores budgets, and nothing holds jobs to them: two that run at once overspend.
    Here twenty jobs of 10,000 units meet a budget of 100,000, and ten begin."""
    await define(scene, tokens=Budget(100_000))
    await scene.enqueue_many(20, **at_cost({"tokens:": 10_000}))
    held = await scene.claim(20)
    assert len(held) == 10
    assert await scene.claim(20) == []
    await scene.finish(held[0], RAISED)
    assert len(await scene.claim(20)) == 1, "what a job that failed had reserved is refunded"
    info = await bucket(scene, "tokens:")
    assert (info.spent, info.in_use) == (0, 100_000)


async def test_counters_do_not_drift(scene: Scene) -> None:
    """FlowFabric corrects drifting counters from time to time; a lost worker, a zombie's end and a
    repeated end must leave nothing to correct."""
    await limited(scene, tenant=5)
    worker = await scene.hire(lease=30.0)
    await scene.enqueue_many(5, **through("tenant:a"))
    held = await scene.claim(5, worker=worker)
    scene.clock.advance(31)
    for lapsed in await scene.store.jobs.lapsed_leases(10):
        await scene.reclaim(lapsed, Reclaimed("lapsed", suspected=False))
    again = await scene.claim(5)
    for job in (*held, *again, *again):
        await scene.finish(job)
        await nothing_is_wrong(scene)
    assert await in_use(scene, "tenant:a") == 0


async def test_a_rate_is_one_for_all_processes(scene: Scene) -> None:
    """awa limits each process: n of them are n times too fast."""
    await define(scene, calls=Rate(10, per=60.0))
    await scene.enqueue_many(40, **through("calls:"))
    async with siblings(scene.store, 3) as others:
        stores = [scene.store, *others]
        given = await asyncio.gather(*(scene.through(store).claim(20) for store in stores))
    assert sum(len(some) for some in given) == 10


async def test_no_storm_begins_when_many_workers_start_at_once(scene: Scene) -> None:
    """forge-jobs let every new worker begin with all slots of a queue until a leader had shared
    them. A total is counted where jobs begin, whatever workers believe."""
    await scene.store.queues.tune(QUEUE, QueueSettings(max_running=4))
    await scene.enqueue_many(40)
    workers = [await scene.hire(lease=1_000.0) for _ in range(5)]
    async with siblings(scene.store, 4) as others:
        stores = [scene.store, *others]
        given = await asyncio.gather(
            *(
                scene.through(store).claim(10, worker=worker)
                for store, worker in zip(stores, workers, strict=True)
            )
        )
    assert sum(len(some) for some in given) == 4
    assert await in_use(scene, total_name(QUEUE)) == 4


async def test_a_lowered_total_stops_nobody_and_costs_no_attempt(scene: Scene) -> None:
    """forge-jobs cancels running handlers when a queue is scaled down, and burns their attempt."""
    await scene.store.queues.tune(QUEUE, QueueSettings(max_running=3))
    await scene.enqueue_many(5)
    held = await scene.claim(5)
    await scene.store.queues.tune(QUEUE, QueueSettings(max_running=1))
    beat = await scene.store.workers.heartbeat(scene.worker, 1_000.0, [])
    assert (beat.cancel, len(held)) == ((), 3)
    for job in held[:2]:
        assert (await scene.finish(job)).accepted
        assert await scene.claim(5) == []
    assert (await scene.finish(held[2])).accepted
    [next_one] = await scene.claim(5)
    assert next_one.attempts == 0


async def test_a_hint_of_the_upstream_is_heeded_by_everybody(scene: Scene) -> None:
    """forge-jobs ignores the retry-after that a handler was given. One throttle of 30 seconds shuts
    the bucket for all workers for so long, and no other limit."""
    await limited(scene, github=5, gitlab=5)
    [job] = await begun(scene, 1, "github:")
    await scene.enqueue(**through("github:"))
    await scene.finish(job, WasThrottled(30.0, "429", "github"))
    async with siblings(scene.store, 1) as [other]:
        assert await scene.through(other).claim(5) == []
        free = await scene.enqueue(**through("gitlab:"))
        assert of(await scene.through(other).claim(5)) == [free]
    scene.clock.advance(31)
    await scene.store.jobs.promote_due(10)
    assert len(await scene.claim(5)) == 2


async def test_lines_that_wait_do_not_starve_those_behind_them(scene: Scene) -> None:
    """FlowFabric's scans read the same oldest rows again and again. Three hundred lines at
    shut buckets stand before one that may begin."""
    await limited(scene, tenant=0, free=1)
    await scene.store.jobs.insert([new_job(**through(f"tenant:{n}")) for n in range(300)])
    job = await scene.enqueue(**through("free:"))
    given = [one for _ in range(30) for one in await scene.claim(1)]
    assert of(given) == [job]


async def test_programs_that_declare_different_numbers_obey_the_store(scene: Scene) -> None:
    """PgQueuer takes the limit from each worker's own code, so that a mixed fleet has two. Here the
    last declaration counts for everybody, and after an operator's word none does."""
    await scene.store.limits.declare({"tenant": Concurrency(5)})
    await scene.store.limits.declare({"tenant": Concurrency(2)})
    await scene.enqueue_many(9, **through("tenant:a"))
    assert len(await scene.claim(9)) == 2
    await scene.store.limits.put("tenant", Concurrency(3))
    await scene.store.limits.declare({"tenant": Concurrency(9)})
    assert len(await scene.claim(9)) == 1
