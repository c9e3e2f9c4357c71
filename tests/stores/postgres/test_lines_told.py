"""Lines that many jobs come to at once: one row tells up to fifty of them, and nobody who reads it
may miss one."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest

from holdfast.clock import ManualClock
from holdfast.job.ids import JobId
from holdfast.job.record import NewJob
from holdfast.limits.model import Concurrency
from holdfast.store.contract.records import Want
from holdfast.store.postgres.copying import COPY_FROM_JOBS, can_copy
from holdfast.store.postgres.store import PostgresStore
from tests.conformance.builders import QUEUE, TASK, new_job
from tests.conformance.limiting import through
from tests.stores.postgres.shared import claim, connected, hired, opened

MANY = COPY_FROM_JOBS + 20


@pytest.fixture
async def store(url: str, clock: ManualClock) -> AsyncIterator[PostgresStore]:
    async with opened(url, clock=clock) as store:
        await store.limits.declare({"tenant": Concurrency(10**6)})
        yield store


async def inserted(store: PostgresStore, jobs: list[NewJob]) -> list[JobId]:
    assert can_copy(jobs)
    await store.jobs.insert(jobs)
    return [job.id for job in jobs]


async def counted(url: str, table: str) -> int:
    async with connected(url) as connection:
        return int(await connection.fetchval(f"select count(*) from holdfast.{table}"))


async def test_fifty_lines_that_jobs_come_to_together_are_one_row(
    url: str, store: PostgresStore
) -> None:
    await inserted(store, [new_job(**through(f"tenant:{n}")) for n in range(MANY)])
    assert await counted(url, "newcomer") == MANY // 50 + 1
    assert await claim(store, await hired(store), MANY + 1)
    assert await counted(url, "newcomer") == 0


async def test_lines_are_served_in_the_order_in_which_jobs_came_to_them(
    store: PostgresStore,
) -> None:
    worker, keys = await hired(store), [*range(2 * MANY)]
    random.Random(7).shuffle(keys)
    jobs = [new_job(**through(f"tenant:{key}")) for key in keys]
    ids = await inserted(store, jobs[:MANY]) + await inserted(store, jobs[MANY:])
    for first in range(0, len(ids), 10):
        assert await claim(store, worker, 10) == ids[first : first + 10]


async def test_lines_that_differ_in_more_than_their_buckets_are_all_served(
    store: PostgresStore,
) -> None:
    kinds = [
        {"queue": queue, "priority": priority, "task": task, **through("tenant:a", weight=weight)}
        for queue in (QUEUE, "other")
        for priority, weight in ((1, 1), (2, 3))
        for task in (TASK, "second")
    ]
    ids = await inserted(store, [new_job(**kinds[n % len(kinds)]) for n in range(MANY)])
    wants = [Want(QUEUE, MANY), Want("other", MANY)]
    claimed = await store.jobs.claim(await hired(store), wants, [TASK, "second"])
    assert {job.id for job in claimed} == set(ids)


async def test_a_claim_hears_of_five_thousand_lines_however_few_rows_tell_them(
    url: str, store: PostgresStore
) -> None:
    worker = await hired(store)
    ids = await inserted(store, [new_job(**through(f"tenant:{n}")) for n in range(5_120)])
    assert await claim(store, worker, 1) == ids[:1]
    assert await counted(url, "line") + 1 == 5_000
    assert await claim(store, worker, len(ids)) == ids[1:]


async def test_the_age_of_a_queue_is_that_of_any_line_that_a_row_tells(
    store: PostgresStore, clock: ManualClock
) -> None:
    keys = ["a", *"b" * MANY]
    first, *_ = await inserted(store, [new_job(**through(f"tenant:{key}")) for key in keys])
    clock.advance(60.0)
    assert await store.jobs.reschedule([first], 60.0) == [first]
    [queue] = await store.queues.find([QUEUE])
    assert queue.oldest_ready_age == pytest.approx(60.0)


async def test_jobs_of_any_line_that_a_row_tells_are_held_up_by_the_label_that_they_need(
    store: PostgresStore,
) -> None:
    keys = ["a", *"b" * MANY]
    await inserted(store, [new_job(**through(f"tenant:{key}", labels=["gpu"])) for key in keys])
    assert await store.limits.held_up([QUEUE], [TASK], ["gpu"]) == 0
    assert await store.limits.held_up([QUEUE], [TASK], []) == len(keys)
