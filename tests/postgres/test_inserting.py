"""Unique keys under concurrency, and bulk."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from holdfast.clock import ManualClock
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy
from holdfast.job.record import NewJob
from holdfast.job.state import JobState
from holdfast.job.unique import Unique
from holdfast.store.contract.records import JobFilter, Topic, Wakeup, Want
from holdfast.store.postgres import jobs as verbs
from tests.conformance.builders import (
    QUEUE,
    RETURNED,
    TASK,
    new_job,
)
from tests.postgres.shared import claim, connected, hired, opened, until_blocked
from tests.support.waiting import wait_until


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Crowds wait for each other's keys longer than a lone enqueue should."""
    monkeypatch.setattr(verbs, "A_TRY", 10.0)


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
        heard: list[Wakeup] = []
        await store.wakeups.subscribe(heard.append)
        worker = await hired(store)
        jobs = [new_job() for _ in range(600)] + [new_job(queue="mail"), new_job(delay=60.0)]
        await store.jobs.insert(jobs)
        assert await claim(store, worker, 1000) == [job.id for job in jobs[:600]]
        await wait_until(lambda: len(heard) >= 3, 5, "the listener heard of the insert")
        assert sorted(heard, key=str) == sorted(
            [Wakeup(Topic.READY, QUEUE), Wakeup(Topic.READY, "mail"), Wakeup(Topic.DUE)], key=str
        )


ODD: tuple[dict[str, Any], ...] = (
    {},
    {"tags": ("a", "", 'b"c\\', "ü,{}", "NULL")},
    {"headers": '{"trace":"\\u0000 ü"}'},
    {"args": '["' + "ß" * 5000 + '"]'},
    {"priority": -(2**31), "queue": "mail"},
    {"priority": 2**31 - 1, "run_at": datetime(2001, 2, 3, 4, 5, 6, 789, tzinfo=UTC)},
    {"run_at": datetime(2101, 2, 3, 4, 5, 6, 789, tzinfo=timezone(timedelta(hours=5)))},
    {"delay": 0.25, "deadline_in": 86_400.5},
    {"deadline_at": datetime(1999, 12, 31, tzinfo=UTC)},
    {"policy": Policy(timeout=1.5)},
)


async def test_a_job_is_the_same_whether_it_came_alone_or_in_bulk(
    url: str, clock: ManualClock
) -> None:
    async with opened(url, clock=clock) as store:
        alone = [new_job(**odd) for odd in ODD]
        for job in alone:
            await store.jobs.insert([job])
        bulk = [new_job(**odd) for odd in ODD * 60]
        await store.jobs.insert(bulk)
        assert await rows(url, bulk) == await rows(url, alone) * 60


async def rows(url: str, jobs: list[NewJob]) -> list[str]:
    """All that the store holds of each job, but for what is its own: id and arrival number."""
    async with connected(url) as connection:
        found = await connection.fetch(
            "select id::text, (to_jsonb(job) || coalesce(to_jsonb(ready), '{}')"
            " || coalesce(to_jsonb(scheduled), '{}') || coalesce(to_jsonb(deadline), '{}'))"
            " - '{id,job_id,seq}'::text[] from holdfast.job"
            " left join holdfast.ready on ready.job_id = id"
            " left join holdfast.scheduled on scheduled.job_id = id"
            " left join holdfast.deadline on deadline.job_id = id"
        )
    held = {row[0]: row[1] for row in found}
    return [held[job.id] for job in jobs]
