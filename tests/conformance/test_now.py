"""Store.now: the store's clock is the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast.store.contract.store import Store
from tests.conformance.builders import Scene, new_job
from tests.support.backends import siblings


async def test_a_manual_clock_replaces_the_stores_own(scene: Scene) -> None:
    assert await scene.store.now() == scene.clock.now
    scene.clock.advance(hours=5)
    assert await scene.store.now() == scene.clock.now


async def test_a_sibling_believes_the_same_clock(scene: Scene) -> None:
    async with siblings(scene.store, 1) as [sibling]:
        assert await sibling.now() == scene.clock.now


async def test_by_default_time_is_the_stores_own_in_utc(live_store: Store) -> None:
    now = await live_store.now()
    assert now.utcoffset() == timedelta(0)
    assert abs(now - datetime.now(UTC)) < timedelta(seconds=60)


async def test_without_a_manual_clock_jobs_are_created_now(live_store: Store) -> None:
    job = new_job(delay=3600.0)
    before = await live_store.now()
    await live_store.jobs.insert([job])
    [kept] = await live_store.jobs.get([job.id])
    assert before <= kept.created_at <= await live_store.now()
    assert kept.due_at is not None
    assert timedelta(seconds=3599) < kept.due_at - before < timedelta(seconds=3660)


async def test_without_a_manual_clock_what_is_due_is_promoted(live_store: Store) -> None:
    await live_store.jobs.insert([new_job(run_at=await live_store.now() - timedelta(seconds=1))])
    await live_store.jobs.insert([new_job(delay=3600.0)])
    promoted = await live_store.jobs.promote_due(10)
    assert promoted.count == 0
    assert promoted.next_due_in is not None
    assert 3500 < promoted.next_due_in <= 3600
