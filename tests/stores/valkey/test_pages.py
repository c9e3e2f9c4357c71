"""Pages over sets of ids in several partitions, while the jobs move between them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from holdfast.job.outcome import decide
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.records import Want
from holdfast.store.contract.store import Store
from tests.conformance.builders import LONG, QUEUE, RETURNED, TASK, ids, new_job, new_worker
from tests.support.backends import opened

PARTITIONS = 8
JOBS = 160


@pytest.fixture
def partitions() -> int:
    return PARTITIONS


@pytest.fixture
async def store(place: str) -> AsyncIterator[Store]:
    async with opened(place) as store:
        yield store


async def walk(store: Store, which: JobFilter, limit: int) -> list[str]:
    found, cursor = list[str](), None
    while True:
        page = await store.jobs.page(which, limit, cursor)
        found += ids(page.jobs)
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_pages_of_several_partitions_miss_no_job_that_is_there_all_the_time(
    store: Store, place: str
) -> None:
    """A job that ends, or is requeued, is in one set before and in another afterwards."""
    jobs = [new_job() for _ in range(JOBS)]
    assert len({int(job.id[-3:], 16) % PARTITIONS for job in jobs}) == PARTITIONS
    await store.jobs.insert(jobs)
    everything = sorted((job.id for job in jobs), reverse=True)
    stop = threading.Event()
    moving = asyncio.create_task(asyncio.to_thread(asyncio.run, end_and_requeue(place, stop)))
    try:
        for _ in range(30):
            assert await walk(store, JobFilter(), 50) == everything
    finally:
        stop.set()
        await moving


async def end_and_requeue(place: str, stop: threading.Event) -> None:
    """On a loop of its own, so that its writes fall between the reads of a page."""
    async with opened(place) as store:
        worker = new_worker()
        await store.workers.register(worker, LONG)
        while not stop.is_set():
            claimed = await store.jobs.claim(worker.id, [Want(QUEUE, 40)], [TASK])
            await store.jobs.finish([decide(job, RETURNED) for job in claimed])
            await store.jobs.requeue([job.id for job in claimed])
