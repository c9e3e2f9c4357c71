"""A job that its caller flushes alone is stored as one that shares a flush with others."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.client.client import Client
from holdfast.job.ids import JobId, new_job_id
from holdfast.job.policy import Policy, encode_policy
from holdfast.job.record import Job, NewJob
from holdfast.store.contract.store import Store

MOMENT = datetime(2030, 1, 1, tzinfo=UTC)


def job_named(number: int) -> NewJob:
    return NewJob(
        new_job_id(),
        "greet",
        "mail",
        f'{{"n":{number}}}',
        encode_policy(Policy()),
        priority=3,
        tags=("a", "b"),
        headers='{"k":"v"}',
    )


def without_its_name(job: Job) -> dict[str, Any]:
    facts = msgspec.structs.asdict(job)
    return facts | {"id": "", "args_json": "", "created_at": MOMENT}


async def test_a_lone_enqueue_stores_what_a_shared_one_stores(live_store: Store) -> None:
    batches: list[int] = []
    insert = live_store.jobs.insert

    async def counted(jobs: list[NewJob], *args: Any) -> Any:
        batches.append(len(jobs))
        return await insert(jobs, *args)

    live_store.jobs.insert = counted  # type: ignore[method-assign,assignment]
    client = Client(live_store)
    lone = await client.insert(job_named(0))
    shared = await asyncio.gather(*(client.insert(job_named(n)) for n in range(1, 6)))
    assert batches[0] == 1
    assert max(batches) > 1, "some shared a flush"
    ids: list[JobId] = [lone.id, *(one.id for one in shared)]
    stored = await live_store.jobs.get(ids)
    assert len(stored) == 6
    assert all(without_its_name(job) == without_its_name(stored[0]) for job in stored)
