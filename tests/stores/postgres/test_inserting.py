"""Unique keys under concurrency, and bulk."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.clock import ManualClock
from holdfast.job.outcome import decide
from holdfast.job.record import NewJob
from holdfast.job.state import JobState
from holdfast.job.unique import Unique
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.records import Want
from holdfast.store.contract.wakeups import Topic, Wakeup
from holdfast.store.postgres import inserting
from tests.conformance.builders import (
    QUEUE,
    RETURNED,
    TASK,
    new_job,
)
from tests.stores.postgres.shared import claim, connected, hired, opened, until_blocked
from tests.support.waiting import wait_until


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Crowds wait for each other's keys longer than a lone enqueue should."""
    monkeypatch.setattr(inserting, "KEY_TRY_SECONDS", 10.0)


@pytest.mark.usefixtures("_patient")
async def test_many_connections_inserting_one_key_make_one_job(url: str) -> None:
    async with opened(f"{url}?pool_size=20") as store:
        keys = [f"key {n}" for n in range(5)]
        answers = await asyncio.gather(
            *(store.jobs.insert([new_job(unique=Unique(key))]) for key in keys for _ in range(20))
        )
        created = [one for [one] in answers if one.how == "created"]
        assert len(created) == len(keys)
        assert {one.id for [one] in answers} == {one.id for one in created}
        assert await store.jobs.count(JobFilter()) == {JobState.READY: len(keys)}


@pytest.mark.usefixtures("_patient")
async def test_many_connections_taking_over_one_key_make_one_job(url: str) -> None:
    """All of them see the holder ended before any of them may touch the key."""
    async with opened(f"{url}?pool_size=20") as store, connected(url) as blocker:
        worker = await hired(store)
        await store.jobs.insert([new_job(unique=Unique("k"))])
        [held] = await store.jobs.claim(worker, [Want(QUEUE, 1)], [TASK])
        await store.jobs.finish([decide(held, RETURNED)])
        async with blocker.transaction():
            await blocker.fetch("select from holdfast.unique_key for update")
            inserts = [
                asyncio.create_task(store.jobs.insert([new_job(unique=Unique("k"))]))
                for _ in range(20)
            ]
            await until_blocked(url, 20)
        answers = await asyncio.gather(*inserts)
        assert [one.how for [one] in answers].count("created") == 1
        assert await store.jobs.count(JobFilter()) == {JobState.SUCCEEDED: 1, JobState.READY: 1}


@pytest.mark.usefixtures("_patient")
async def test_requeue_and_insert_never_both_get_a_key(url: str) -> None:
    async with opened(f"{url}?pool_size=10") as store:
        worker = await hired(store)
        for n in range(10):
            key = Unique(f"k{n}")
            await store.jobs.insert([new_job(unique=key)])
            [held] = await store.jobs.claim(worker, [Want(QUEUE, 1)], [TASK])
            await store.jobs.finish([decide(held, RETURNED)])
            requeued, [inserted] = await asyncio.gather(
                store.jobs.requeue([held.id]), store.jobs.insert([new_job(unique=key)])
            )
            assert bool(requeued) != (inserted.how == "created")
            await claim(store, worker, 9)


@pytest.mark.usefixtures("_patient")
async def test_batches_with_keys_in_opposite_order_do_not_deadlock(url: str) -> None:
    def batch(order: range) -> list[NewJob]:
        return [new_job(unique=Unique(f"{n:03}", on_conflict="debounce")) for n in order]

    async with opened(f"{url}?pool_size=6") as store, connected(url) as watch:
        counted = "select deadlocks from pg_stat_database where datname = current_database()"
        before = await watch.fetchval(counted)
        await asyncio.gather(
            *(store.jobs.insert(batch(range(100))) for _ in range(3)),
            *(store.jobs.insert(batch(range(99, -1, -1))) for _ in range(3)),
        )
        assert await store.jobs.count(JobFilter()) == {JobState.READY: 100}
        assert await watch.fetchval(counted) == before


async def test_a_bulk_insert_repeated_makes_no_second_job(url: str, clock: ManualClock) -> None:
    async with opened(url, clock=clock) as store:
        jobs = [new_job(delay=60.0 * (n % 2), deadline_in=600.0) for n in range(1200)]
        for batch in (jobs, jobs, [*jobs[:600], new_job()]):
            answers = await store.jobs.insert(batch)
            assert [one.id for one in answers] == [job.id for job in batch]
        expected = {JobState.READY: 601, JobState.SCHEDULED: 600}
        assert await store.jobs.count(JobFilter()) == expected
        assert await store.jobs.next_deadline_in() == 600.0
        [record] = await store.jobs.get([jobs[1].id])
        assert (record.created_at, record.due_at) == (clock.now, ManualClock(clock.now).advance(60))


async def test_a_bulk_insert_lines_up_in_its_order_and_wakes_each_queue_once(url: str) -> None:
    async with opened(url) as store:
        worker = await hired(store)
        heard: list[Wakeup] = []
        await store.wakeups.subscribe(heard.append)
        jobs = [new_job() for _ in range(600)] + [new_job(queue="mail"), new_job(delay=60.0)]
        await store.jobs.insert(jobs)
        assert await claim(store, worker, 1000) == [job.id for job in jobs[:600]]
        await wait_until(lambda: len(heard) >= 3, 5, "the listener heard of the insert")
        assert sorted(heard, key=str) == sorted(
            [Wakeup(Topic.READY, QUEUE), Wakeup(Topic.READY, "mail"), Wakeup(Topic.DUE)], key=str
        )
