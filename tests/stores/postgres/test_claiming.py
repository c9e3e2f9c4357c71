"""Claiming: where a scan starts, and what becomes of a reply that was lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.errors import (
    StoreUnavailable,
)
from holdfast.job.ends import HandedBack
from holdfast.job.outcome import decide
from holdfast.store.contract.records import Want
from holdfast.store.postgres.jobs import PostgresJobs
from holdfast.store.postgres.skip_points import HIGHEST, LOWEST, SkipPoints
from tests.conformance.builders import (
    QUEUE,
    TASK,
    new_job,
)
from tests.stores.postgres.shared import claim, connected, hired, opened, until_blocked


def test_a_scan_without_memory_walks_the_whole_queue() -> None:
    assert SkipPoints().stretches(["a"], 0.0) == (["a"], [LOWEST], [0], [HIGHEST])


def found(priority: int, seq: int) -> dict[str, Any]:
    return {"queue": "a", "priority": priority, "seq": seq}


def test_a_scan_starts_where_the_last_one_found_its_first_row() -> None:
    skip = SkipPoints()
    skip.scanned_all(0.0, 0.2)
    skip.learn([found(0, 70), found(0, 71), found(5, 9)], ())
    assert skip.stretches(["a"], 0.3) == (
        ["a"] * 3,
        [LOWEST, 0, 5],
        [0, 70, 9],
        [-1, 4, HIGHEST],
    )


def test_a_queue_that_came_back_short_is_scanned_from_its_head() -> None:
    skip = SkipPoints()
    skip.scanned_all(0.0, 0.2)
    skip.learn([found(0, 70)], ())
    skip.learn([found(0, 80)], {"a"})
    assert skip.stretches(["a"], 0.3)[2] == [0]


def test_the_memory_of_a_scan_fades_with_what_the_scan_cost() -> None:
    skip = SkipPoints()
    skip.scanned_all(0.0, 0.01)
    skip.learn([found(0, 70)], ())
    assert skip.stretches(["a"], 0.5)[2] == [0, 70]
    assert skip.stretches(["a"], 0.6)[2] == [0]
    skip.scanned_all(0.0, 60.0)
    skip.learn([found(0, 70)], ())
    assert skip.stretches(["a"], 61.5)[2] == [0]


async def test_a_claim_from_a_queue_that_runs_dry_is_one_statement(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle worker's next job must not wait for a second scan that cannot find more."""
    async with opened(url) as store:
        worker, connections, asked = await hired(store), store._connections, list[str]()
        answered = connections.timed

        async def counted(verb: str, *values: Any, **options: Any) -> Any:
            asked.append(verb)
            return await answered(verb, *values, **options)

        monkeypatch.setattr(connections, "timed", counted)
        for _ in range(3):
            [job] = await store.jobs.insert([new_job()])
            assert await claim(store, worker, 5) == [job.id]
        assert asked == ["jobs/claim"] * 3


async def test_a_job_handed_back_is_next_whatever_was_claimed_since(url: str) -> None:
    async with opened(url) as store:
        worker = await hired(store)
        jobs = [new_job() for _ in range(6)]
        await store.jobs.insert(jobs)
        first, *_ = await store.jobs.claim(worker, [Want(QUEUE, 2)], [TASK])
        await claim(store, worker, 2)
        await store.jobs.finish([decide(first, HandedBack())])
        assert await claim(store, worker) == [first.id]


async def test_a_claim_whose_reply_was_lost_is_answered_by_the_next(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(url) as store:
        assert isinstance(store.jobs, PostgresJobs)
        worker, connections = await hired(store), store._connections
        jobs = [job.id for job in await store.jobs.insert([new_job() for _ in range(5)])]
        answered = connections.timed

        async def lost(*values: Any, **options: Any) -> Any:
            await answered(*values, **options)
            raise StoreUnavailable("the reply never came")

        with monkeypatch.context() as outage:
            outage.setattr(connections, "timed", lost)
            with pytest.raises(StoreUnavailable):
                await claim(store, worker, 3)
        assert await claim(store, worker, 2) == jobs[:2]
        assert await claim(store, worker, 2) == jobs[2:3]
        assert await claim(store, worker, 9) == jobs[3:]
        assert await claim(store, worker, 9) == []


async def test_workers_of_one_program_whose_replies_were_lost_get_each_job_once(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(url) as store:
        workers, connections = [await hired(store), await hired(store)], store._connections
        jobs = [job.id for job in await store.jobs.insert([new_job() for _ in range(6)])]
        answered = connections.timed

        async def lost(*values: Any, **options: Any) -> Any:
            await answered(*values, **options)
            raise StoreUnavailable("the reply never came")

        with monkeypatch.context() as outage:
            outage.setattr(connections, "timed", lost)
            for worker in workers:
                with pytest.raises(StoreUnavailable):
                    await claim(store, worker, 3)
        given = [job for _ in range(3) for worker in workers for job in await claim(store, worker)]
        assert sorted(given) == sorted(jobs)


async def test_a_claim_of_other_tasks_does_not_inherit_what_was_passed_over(url: str) -> None:
    async with opened(url) as store:
        worker = await hired(store)
        [early] = await store.jobs.insert([new_job("rare")])
        await store.jobs.insert([new_job() for _ in range(4)])
        [late] = await store.jobs.insert([new_job("rare")])
        assert len(await claim(store, worker, 2)) == 2
        [first] = await store.jobs.claim(worker, [Want(QUEUE, 1)], ["rare"])
        assert first.id == early.id != late.id


async def test_a_cancelled_claim_loses_no_job(url: str) -> None:
    async with opened(url) as store, connected(url) as blocker:
        worker = await hired(store)
        [job] = await store.jobs.insert([new_job()])
        async with blocker.transaction():
            await blocker.execute("lock holdfast.lease in exclusive mode")
            claiming = asyncio.create_task(claim(store, worker))
            await until_blocked(url)
            claiming.cancel()
            with pytest.raises(asyncio.CancelledError):
                await claiming
        assert await claim(store, worker) == [job.id]
