"""Where claims of jobs with limits begin to read: what lies before has nothing for them, and what
comes there late is found."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from types import SimpleNamespace

import pytest

from holdfast.job.ends import HandedBack
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.outcome import decide
from holdfast.limits.model import Concurrency
from holdfast.store.contract.records import Want
from holdfast.store.postgres import admitting, skip_points
from holdfast.store.postgres.store import PostgresStore
from tests.conformance.builders import QUEUE, RETURNED, TASK, insert_within, new_job
from tests.conformance.limiting import through
from tests.stores.postgres.shared import claim, connected, hired, opened

KEYS, JOBS, BATCH, FEW = 20, 2_400, 40, 10
READ = (
    "select sum(idx_tup_read)::int from pg_stat_user_indexes where schemaname = 'holdfast'"
    " and indexrelname in ('line_open', 'ready_limited_line', 'bucket_pkey')"
)
LOCK_LINE = "select from holdfast.line where buckets = $1 for update"


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    async with opened(f"{url}?pool_size=1") as store:
        await store.limits.declare({"tenant": Concurrency(10**6)})
        yield store


async def read_by_claims(store: PostgresStore, worker: WorkerId, claims: int) -> int:
    """The entries that so many claims read, and the ends of what they gave."""
    before = await entries_read(store)
    for _ in range(claims):
        jobs = await store.jobs.claim(worker, [Want(QUEUE, BATCH)], [TASK])
        assert len(jobs) == BATCH
        verdicts = await store.jobs.finish([decide(job, RETURNED) for job in jobs])
        assert all(verdict.accepted for verdict in verdicts)
    return await entries_read(store) - before


async def entries_read(store: PostgresStore) -> int:
    """By the store's one connection, which tells it after this statement."""
    await store._connections.run(
        lambda session: session.connection.fetch("select pg_stat_force_next_flush()")
    )
    [(read,)] = await store._connections.run(lambda session: session.connection.fetch(READ))
    return int(read)


async def test_claims_under_an_old_snapshot_read_as_little_late_as_early(
    url: str, store: PostgresStore
) -> None:
    worker = await hired(store)
    await store.jobs.insert([new_job(**through(f"tenant:{n % KEYS}")) for n in range(JOBS)])
    async with connected(url) as other, other.transaction(isolation="repeatable_read"):
        await other.fetch("select from holdfast.bucket")
        early = await read_by_claims(store, worker, FEW)
        await read_by_claims(store, worker, JOBS // BATCH - 2 * FEW)
        assert await read_by_claims(store, worker, FEW) < 3 * early


async def test_a_job_that_comes_back_is_the_first_of_its_line_again(store: PostgresStore) -> None:
    worker = await hired(store)
    jobs = [new_job(**through("tenant:a")) for _ in range(8)]
    await store.jobs.insert(jobs)
    first, *_ = await store.jobs.claim(worker, [Want(QUEUE, 4)], [TASK])
    assert await claim(store, worker, 1) == [jobs[4].id]
    await store.jobs.finish([decide(first, HandedBack(begun=False))])
    assert await claim(store, worker, 4) == [jobs[0].id, *(job.id for job in jobs[5:])]


@pytest.mark.parametrize("told", ["its number", "no number, as the release before"])
async def test_a_job_of_a_transaction_that_commits_late_is_found_at_its_place(
    url: str, store: PostgresStore, told: str
) -> None:
    worker = await hired(store)
    early, late = new_job(**through("tenant:a")), new_job(**through("tenant:a"))
    others = [new_job(**through("tenant:a")) for _ in range(8)]
    async with connected(url) as mine, mine.transaction():
        await insert_within(store.jobs, mine, [early])
        if told != "its number":
            await mine.execute("update holdfast.newcomer set seq = default")
        await store.jobs.insert(others)
        assert await claim(store, worker, 4) == [job.id for job in others[:4]]
    await store.jobs.insert([late])
    assert await claim(store, worker, 1) == [early.id]
    assert await claim(store, worker, 5) == [*(job.id for job in others[4:]), late.id]


async def test_jobs_that_many_are_written_with_are_found_from_the_first_on(
    store: PostgresStore,
) -> None:
    """Many jobs are written by COPY, which gives them their numbers after their line was told."""
    worker = await hired(store)
    for _ in range(2):
        jobs = [new_job(**through("tenant:a")) for _ in range(120)]
        await store.jobs.insert(jobs)
        assert await claim(store, worker, 120) == [job.id for job in jobs]


async def test_a_job_that_was_locked_when_its_line_was_served_is_not_lost(
    url: str, store: PostgresStore
) -> None:
    worker = await hired(store)
    jobs = [new_job(**through("tenant:a")) for _ in range(3)]
    await store.jobs.insert(jobs)
    async with connected(url) as mine, mine.transaction():
        lock = "select from holdfast.ready_limited where job_id = $1 for update"
        await mine.execute(lock, jobs[0].id)
        assert await claim(store, worker, 1) == [jobs[1].id]
    assert await claim(store, worker, 2) == [jobs[0].id, jobs[2].id]


async def test_a_job_that_an_operator_moves_into_a_line_is_found_at_its_place(
    store: PostgresStore,
) -> None:
    worker = await hired(store)
    moved = new_job(priority=5, **through("tenant:a"))
    jobs = [new_job(**through("tenant:a")) for _ in range(3)]
    await store.jobs.insert([moved, *jobs])
    assert await claim(store, worker, 1) == [jobs[0].id]
    await store.jobs.reprioritise([moved.id], 0)
    assert await claim(store, worker, 3) == [moved.id, jobs[1].id, jobs[2].id]


async def test_a_line_that_another_claim_serves_is_not_skipped_by_the_next_one(
    url: str, store: PostgresStore
) -> None:
    """Its turn may be sooner than those of the lines that were not locked."""
    worker = await hired(store)
    first = [new_job(**through("tenant:a")) for _ in range(2)]
    rest = [new_job(**through(f"tenant:{key}")) for key in "bcd" for _ in range(20)]
    await store.jobs.insert([*first, *rest])
    async with connected(url) as mine, mine.transaction():
        await claim(store, worker, 1)  # hears of the lines, and serves the first
        await mine.execute(LOCK_LINE, "tenant:b")
        assert len(await claim(store, worker, 2)) == 2
    assert rest[0].id in await claim(store, worker, 1)


async def test_a_line_before_those_that_a_claim_begins_with_is_found_when_those_give_too_little(
    url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skip_points, "FORGET_AFTER_SECONDS", 3600)
    monkeypatch.setattr(skip_points, "REST_PER_FULL_SCAN", 10**9)
    worker = await hired(store)
    jobs = [new_job(**through(f"tenant:{key}")) for key in "ab" for _ in range(12)]
    await store.jobs.insert(jobs)
    for _ in range(3):  # both lines have had turns, so that there is something to skip
        assert len(await claim(store, worker, 6)) == 6
    async with connected(url) as other:
        await other.execute("update holdfast.line set turn = 0 where buckets = 'tenant:a'")
    async with asyncio.timeout(10):
        assert len(await claim(store, worker, 12)) == 6


async def test_claims_of_a_queue_that_gives_too_little_keep_no_line_of_another_queue_skipped(
    url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full look at the one must not put off the next full look at the other."""
    clock = count(0.0, 0.05)
    monkeypatch.setattr(admitting, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    worker = await hired(store)
    jobs = [new_job(**through(f"tenant:{key}")) for key in "ab" for _ in range(200)]
    await store.jobs.insert(jobs)

    async def give() -> set[JobId]:
        await store.jobs.insert([new_job(queue="scant", **through("tenant:c"))])
        wants = [Want("scant", 2), Want(QUEUE, 2)]
        given = await store.jobs.claim(worker, wants, [TASK])
        assert [job.queue for job in given].count(QUEUE) == 2
        return {job.id for job in given}

    for _ in range(6):  # both lines have had turns, so that there is something to skip
        await give()
    async with connected(url) as other:
        await other.execute("update holdfast.line set turn = 0 where buckets = 'tenant:a'")
    given = set[JobId]().union(*[await give() for _ in range(40)])
    assert given & {job.id for job in jobs[:200]}
