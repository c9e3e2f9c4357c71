"""Store.migrate: ordered, recorded, applied once, and never under a newer store's feet."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import SchemaTampered, SchemaTooNew
from holdfast.job.ids import new_job_id
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from holdfast.store.open import open_store
from tests.conformance.builders import new_job
from tests.support.backends import Backend, Inspectable, opened


async def migrated(url: str) -> Store:
    store = open_store(url)
    await store.migrate()
    await store.close()
    return store


async def the_migration_table(inspectable: Inspectable, url: str) -> str:
    [table] = [name for name in await inspectable.tables(url) if "migration" in name]
    return table


async def test_a_migrated_store_can_be_opened_and_used(backend: Backend) -> None:
    store = open_store(backend.fresh())
    await store.migrate()
    await store.open()
    try:
        job = new_job()
        await store.jobs.insert([job])
        [kept] = await store.jobs.get([job.id])
        assert kept.state is JobState.READY
    finally:
        await store.close()


async def test_a_second_migration_has_nothing_to_do(inspectable: Inspectable) -> None:
    url = inspectable.fresh()
    await migrated(url)
    async with opened(url) as store:
        assert await store.migrate() == []


async def test_every_migration_is_recorded_in_order(inspectable: Inspectable) -> None:
    url = inspectable.fresh()
    await migrated(url)
    table = await the_migration_table(inspectable, url)
    rows = await inspectable.query(
        url, f"select version, name from {table} order by applied_at, version"
    )
    versions = [int(str(version)) for version, _ in rows]
    assert versions == sorted(set(versions))
    assert all(str(name).startswith(f"{version:04}_") for version, name in rows)


async def test_many_programs_may_migrate_at_once(inspectable: Inspectable) -> None:
    url = inspectable.fresh()
    stores = [open_store(url) for _ in range(4)]
    try:
        applied = await asyncio.gather(*(store.migrate() for store in stores))
    finally:
        await asyncio.gather(*(store.close() for store in stores))
    names = [name for names in applied for name in names]
    assert len(names) == len(set(names))
    async with opened(url) as store:
        assert await store.migrate() == []


async def test_an_older_program_refuses_a_newer_store(inspectable: Inspectable) -> None:
    url = inspectable.fresh()
    await migrated(url)
    table = await the_migration_table(inspectable, url)
    columns = "version, name, checksum, applied_at"
    await inspectable.query(
        url,
        f"insert into {table} ({columns})"
        f" select 999, '0999_future', 'x', applied_at from {table} where version = 1",
    )
    await refuses(url, SchemaTooNew)


async def test_a_changed_migration_is_noticed(inspectable: Inspectable) -> None:
    url = inspectable.fresh()
    await migrated(url)
    table = await the_migration_table(inspectable, url)
    await inspectable.query(url, f"update {table} set checksum = 'other' where version = 1")
    await refuses(url, SchemaTampered)


async def refuses(url: str, error: type[Exception]) -> None:
    store = open_store(url)
    try:
        with pytest.raises(error):
            await store.open()
        with pytest.raises(error):
            await store.migrate()
    finally:
        await store.close()


async def test_the_script_run_by_hand_is_as_good_as_a_migration(inspectable: Inspectable) -> None:
    url = inspectable.fresh()
    await inspectable.run(url, open_store(url).migration_sql())
    async with opened(url) as store:
        assert await store.migrate() == []
        await store.jobs.insert([new_job()])


async def test_a_store_may_be_opened_and_closed_again_and_again(inspectable: Inspectable) -> None:
    url = await inspectable.empty()
    job = new_job()
    async with opened(url) as store:
        await store.jobs.insert([job])
        await store.close()
    async with opened(url) as store:
        assert len(await store.jobs.get([job.id])) == 1


async def test_errors_that_were_kept_before_happenings_are_told_as_such(
    inspectable: Inspectable,
) -> None:
    url, failed, tried = inspectable.fresh(), new_job_id(), new_job_id()
    before, _, _ = open_store(url).migration_sql().partition("-- The life of a job:")
    await inspectable.run(url, f"{before}commit;" if before.startswith("begin;") else before)
    names = {name.rpartition(".")[2].strip('"'): name for name in await inspectable.tables(url)}
    sqlite = "holdfast_job" in names
    job, outcome, scheduled, error = (
        names[f"holdfast_{name}" if sqlite else name]
        for name in ("job", "outcome", "scheduled", "error")
    )
    now, seq, number = ("0", ", seq", ", 1") if sqlite else ("now()", "", "")
    narrow = f"job_id, queue, priority, task, attempts, crashes, fence, ties{seq}"
    values = f"'q', 0, 'greet', 2, 0, 2, 0{number}"
    told = (
        "job_id, n, attempt, at, kind, message" if sqlite else "job_id, attempt, at, kind, message"
    )
    for job_id in (failed, tried):
        await inspectable.query(
            url,
            f"insert into {job} (id, task, args, policy, created_at)"
            f" values ('{job_id}', 'greet', '{{}}', '{{}}', {now})",
        )
        for attempt, kind in ((1, "TimedOut"), (2, "ValueError")):
            count = f"{attempt}, " if sqlite else ""
            await inspectable.query(
                url,
                f"insert into {error} ({told})"
                f" values ('{job_id}', {count}{attempt}, {now}, '{kind}', 'no')",
            )
    await inspectable.query(
        url,
        f"insert into {outcome} ({narrow}, state, finished_at)"
        f" values ('{failed}', {values}, 'failed', {now})",
    )
    await inspectable.query(
        url, f"insert into {scheduled} ({narrow}, due_at) values ('{tried}', {values}, {now})"
    )
    await migrated(url)
    async with opened(url) as store:
        lives = {job_id: await store.jobs.life([job_id]) for job_id in (failed, tried)}
        assert [one.what.value for one in lives[failed]] == ["timed_out", "failed"]
        assert [one.what.value for one in lives[tried]] == ["timed_out", "retried"]
        [kept] = await store.jobs.get([failed])
        assert [(error.attempt, error.kind) for error in kept.errors] == [
            (1, "TimedOut"),
            (2, "ValueError"),
        ]
