"""The file under a SQLite store: whose it is, and whether it is still there."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.errors import SchemaTooNew, StoreError, StoreUnavailable
from holdfast.job.ids import new_job_id, new_worker_id
from holdfast.job.policy import Policy, encode_policy
from holdfast.job.record import NewJob
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.records import Want
from holdfast.store.contract.store import Store
from holdfast.store.contract.wakeups import Topic, Wakeup
from holdfast.store.open import open_store
from tests.conformance.builders import insert_within_sync
from tests.support.backends import opened
from tests.support.leaks import nothing_leaks
from tests.support.waiting import wait_until
from tests.support.working import Shop


def new_job() -> NewJob:
    return NewJob(new_job_id(), "t", "q", "{}", encode_policy(Policy()))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


def run_on(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(script)


def journal_of(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        mode: str = connection.execute("pragma journal_mode").fetchone()[0]
        return mode


def contents(path: Path) -> bytes:
    return path.read_bytes()


def neighbours(path: Path) -> list[Path]:
    return sorted(path.parent.iterdir())


def put(path: Path, there: Path) -> None:
    path.rename(there)


def remove(path: Path, *, log: bool = True) -> None:
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm")[: 3 if log else 1]:
        path.with_name(name).unlink(missing_ok=True)


# Whose file it is ---------------------------------------------------------------------------


def newer(path: Path) -> None:
    run_on(path, open_store(f"sqlite:///{path}").migration_sql())
    run_on(path, "insert into holdfast_migration values (9999, '9999_later', '?', 0)")


def with_a_table_of_that_name(path: Path) -> None:
    run_on(path, "create table holdfast_job (mine text)")


def with_a_record_of_that_name(path: Path) -> None:
    run_on(path, "create table holdfast_migration (mine text)")


def no_database(path: Path) -> None:
    path.write_text("a shopping list, not a database")


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (newer, SchemaTooNew, "upgrade holdfast"),
        (with_a_table_of_that_name, StoreError, "'holdfast_job', which Holdfast did not make"),
        (with_a_record_of_that_name, StoreError, "'holdfast_migration', which Holdfast did not"),
        (no_database, StoreError, "file is not a database"),
    ],
)
async def test_a_file_that_is_not_ours_is_left_as_it_was(
    path: Path, url: str, make: Callable[[Path], None], error: type[StoreError], said: str
) -> None:
    make(path)
    before = contents(path)
    async with nothing_leaks():
        with pytest.raises(error, match=said):
            await open_store(url).open()
    assert contents(path) == before
    assert neighbours(path) == [path]


async def test_a_users_file_is_shared_with_the_users_own_tables(path: Path, url: str) -> None:
    run_on(path, "create table job (mine text); insert into job values ('kept')")
    async with opened(url):
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("select mine from job").fetchall() == [("kept",)]
    assert journal_of(path) == "wal"


# Whether it is still there -------------------------------------------------------------------


@pytest.fixture
async def store(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    """With a job in it, looked at anew by every call."""
    monkeypatch.setattr("holdfast.store.sqlite.anchor.LOOK_EVERY_SECONDS", 0.0)
    async with opened(url) as store:
        await store.jobs.insert([new_job()])
        assert await store.jobs.count(JobFilter()) == {JobState.READY: 1}
        yield store


async def test_a_deleted_file_is_told_and_not_made_anew(path: Path, store: Store) -> None:
    remove(path)
    sibling = store.sibling()
    for call in (
        store.jobs.insert([new_job()]),
        store.jobs.insert([new_job() for _ in range(100)]),
        store.jobs.count(JobFilter()),
        store.jobs.claim(new_worker_id(), [Want("q", 1)], ["t"]),
        sibling.open(),
    ):
        with pytest.raises(StoreUnavailable, match=r"shop\.db is gone: .* put it back"):
            await call
    assert neighbours(path) == []


async def test_a_file_that_was_moved_away_goes_on_when_it_is_back(path: Path, store: Store) -> None:
    aside = path.with_name("aside.db")
    put(path, aside)
    with pytest.raises(StoreUnavailable, match="is gone"):
        await store.jobs.insert([new_job()])
    put(aside, path)
    await store.jobs.insert([new_job()])
    assert await store.jobs.count(JobFilter()) == {JobState.READY: 2}


async def test_a_replaced_file_is_followed(path: Path, store: Store) -> None:
    restored = await another_store(path)
    remove(path)
    put(restored, path)
    assert await store.jobs.count(JobFilter()) == {JobState.READY: 5}
    await store.jobs.insert([new_job()])
    await store.jobs.insert([new_job() for _ in range(100)])
    async with opened(f"sqlite:///{path}") as fresh:
        assert await fresh.jobs.count(JobFilter()) == {JobState.READY: 106}


async def test_a_file_put_beside_the_log_of_the_former_is_not_touched(
    path: Path, store: Store
) -> None:
    restored = await another_store(path)
    remove(path, log=False)
    put(restored, path)
    before = contents(path)
    for call in (store.jobs.insert([new_job()]), store.jobs.count(JobFilter())):
        with pytest.raises(StoreUnavailable, match=r"remove shop\.db-wal and shop\.db-shm"):
            await call
    assert contents(path) == before


def with_a_table_of_its_own(path: Path) -> None:
    run_on(path, "create table mine (n)")


@pytest.mark.parametrize("make", [with_a_table_of_its_own, no_database, newer])
async def test_a_strange_file_in_the_place_of_the_store_is_not_touched(
    path: Path, store: Store, make: Callable[[Path], None]
) -> None:
    remove(path)
    make(path)
    before = contents(path)
    for call in (store.jobs.insert([new_job()]), store.jobs.count(JobFilter())):
        with pytest.raises(StoreUnavailable, match="not the store that was opened"):
            await call
    assert contents(path) == before


async def test_listeners_hear_of_the_file_that_replaced_the_former(
    path: Path, store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("holdfast.store.sqlite.watcher.RECONNECT_SECONDS", 0.02)
    heard: list[Wakeup] = []
    await store.wakeups.subscribe(heard.append)
    restored = await another_store(path)
    remove(path)
    await wait_until(lambda: "shop.db is gone" in caplog.text, 5, "the loss is noticed")
    put(restored, path)
    await wait_until(lambda: Wakeup(Topic.READY) in heard, 5, "the new file is looked at")
    async with opened(f"sqlite:///{path}") as other:
        await other.jobs.insert([new_job()])
        await wait_until(lambda: Wakeup(Topic.READY, "q", 1) in heard, 5, "a commit is heard")
    assert caplog.text.count("is gone") == 1


async def another_store(path: Path) -> Path:
    """A store of five jobs that nobody has open, as a backup is restored."""
    restored = path.with_name("restored.db")
    async with opened(f"sqlite:///{restored}") as other:
        await other.jobs.insert([new_job() for _ in range(5)])
    return restored


async def test_a_store_that_is_opened_again_may_begin_with_a_new_file(
    path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.store.sqlite.anchor.LOOK_EVERY_SECONDS", 0.0)
    store = open_store(url)
    for _ in range(2):
        await store.open()
        await store.jobs.insert([new_job()])
        assert await store.jobs.count(JobFilter()) == {JobState.READY: 1}
        await store.close()
        remove(path)


async def test_a_worker_whose_file_was_moved_says_so_and_goes_on_when_it_is_back(
    path: Path, store: Store
) -> None:
    async def fine() -> None: ...

    shop, aside = Shop(store, fine), path.with_name("aside.db")
    async with shop.worker(lease=30, poll=0.05):
        put(path, aside)
        lost = "worker.store_unavailable"
        await wait_until(lambda: bool(shop.reported(lost)), 5, "the loss is told")
        assert "is gone" in str(shop.reported(lost)[0].fields["error"])
        put(aside, path)
        job_id = await shop.enqueue(fine)
        assert (await shop.until(job_id, lambda job: job.ended)).state is JobState.SUCCEEDED
        back = "worker.store_back"
        await wait_until(lambda: bool(shop.reported(back)), 10, "every verb works again")
    assert len(shop.reported(lost)) == len(shop.reported(back)) == 1


def test_a_callers_connection_to_a_deleted_file_is_refused(path: Path, url: str) -> None:
    run_on(path, open_store(url).migration_sql())
    with closing(sqlite3.connect(path)) as own:
        own.execute("select * from holdfast_job").fetchall()
        remove(path)
        with pytest.raises(StoreUnavailable, match="is gone"):
            insert_within_sync(open_store(url).jobs, own, [new_job()])
