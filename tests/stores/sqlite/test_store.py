"""What only SQLite has: one file shared by processes, its URL, its threads and its plans."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from holdfast.clock import ManualClock
from holdfast.errors import BadOption, SchemaTooNew, StoreError, StoreUnavailable
from holdfast.job.ends import HandedBack
from holdfast.job.ids import WorkerId, new_job_id, new_worker_id
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy, encode_policy
from holdfast.job.record import Claimed, NewJob
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.health import Severity
from holdfast.store.contract.records import Want
from holdfast.store.contract.wakeups import Topic, Wakeup
from holdfast.store.contract.workers import WorkerInfo
from holdfast.store.open import open_store
from holdfast.store.sqlite import schema
from holdfast.store.sqlite.changes import PolledChanges
from holdfast.store.sqlite.claiming import MarkedLines
from holdfast.store.sqlite.connection import connect
from holdfast.store.sqlite.finishing import finish
from holdfast.store.sqlite.inserting import insert
from holdfast.store.sqlite.options import Location
from holdfast.store.sqlite.reading import live
from holdfast.store.sqlite.schema import migrate
from holdfast.store.sqlite.store import SqliteStore
from holdfast.store.sqlite.transaction import Transaction
from tests.conformance.builders import Scene, insert_within, insert_within_sync
from tests.support.backends import opened
from tests.support.leaks import nothing_leaks
from tests.support.processes import run_python
from tests.support.waiting import wait_until

GOLDEN = Path(__file__).parents[2] / "golden" / "sqlite_schema.sql"
POLICY = encode_policy(Policy())

# Each process opens the file (which may not exist yet), adds 25 jobs, and works off 25.
WORK = """
import asyncio, sys
from holdfast.job.record import NewJob
from holdfast.job.policy import Policy, encode_policy
from holdfast.job.ids import new_job_id, new_worker_id
from holdfast.job.ends import Returned
from holdfast.job.outcome import decide
from holdfast.store.contract.records import Want
from holdfast.store.contract.workers import WorkerInfo
from holdfast.store.open import open_store

async def main():
    store = open_store(sys.argv[1])
    await store.open()
    worker = new_worker_id()
    await store.workers.register(WorkerInfo(worker, "w", "h", 1, {"q": 1}, ("t",), "1"), 60)
    for _ in range(25):
        job = NewJob(new_job_id(), "t", "q", "{}", encode_policy(Policy()))
        await store.jobs.insert([job])
        for claimed in await store.jobs.claim(worker, [Want("q", 1)], ["t"]):
            [verdict] = await store.jobs.finish([decide(claimed, Returned(None))])
            assert verdict.accepted
        await store.workers.heartbeat(worker, 60, [])
    await store.close()

asyncio.run(main())
"""


def new_job(task: str = "t") -> NewJob:
    return NewJob(new_job_id(), task, "q", "{}", POLICY)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
def tx() -> Iterator[Transaction]:
    """A migrated database in memory, past the store's threads."""
    with closing(connect(Location(None))) as connection:
        tx = Transaction(connection.cursor(), 1_000_000)
        migrate(tx, "memory")
        yield tx


async def test_eight_processes_share_a_file_and_none_hears_of_a_lock(url: str) -> None:
    ends = await asyncio.gather(*(run_python(WORK, url) for _ in range(8)))
    assert ends == [(0, "")] * 8
    async with opened(url) as store:
        assert await store.jobs.count(JobFilter()) == {JobState.SUCCEEDED: 200}


@pytest.mark.parametrize("way", ["told by the kernel", "polling"])
async def test_a_commit_of_another_process_wakes(
    url: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "polling":
        monkeypatch.setattr(
            "holdfast.store.sqlite.watcher.changes_of", lambda path: PolledChanges()
        )
    heard: asyncio.Queue[Wakeup] = asyncio.Queue()
    async with opened(url) as store:
        await store.wakeups.subscribe(heard.put_nowait)
        assert await run_python(WORK, url) == (0, "")
        async with asyncio.timeout(10):
            while (wakeup := await heard.get()).topic is Topic.FLEET:
                pass  # its worker came
            assert (wakeup.topic, wakeup.name) == (Topic.READY, "q")


async def test_a_commit_of_its_own_wakes_once(url: str) -> None:
    heard: list[Wakeup] = []
    async with opened(url) as store, opened(url) as other:
        await store.wakeups.subscribe(heard.append)
        await store.jobs.insert([new_job()])
        # The next word comes through the watcher, which would by then have repeated the first.
        await other.queues.resume(["last"])
        await wait_until(
            lambda: any(one.name == "last" for one in heard), 10, "the other store's wakeup"
        )
    assert heard.count(Wakeup(Topic.READY, "q", 1)) == 1


async def test_a_rolled_back_transaction_takes_its_jobs_along(url: str) -> None:
    async with opened(url) as store:
        with closing(sqlite3.connect(path_of(url))) as own:
            own.execute("create table mine (n)")
            own.execute("insert into mine values (1)")
            insert_within_sync(store.jobs, own, [new_job()])
            own.rollback()
            assert own.execute("select count(*) from mine").fetchone() == (0,)
            assert await store.jobs.count(JobFilter()) == {}
            own.execute("insert into mine values (2)")
            insert_within_sync(store.jobs, own, [new_job()])
            own.commit()
        assert await store.jobs.count(JobFilter()) == {JobState.READY: 1}


async def test_a_caller_may_read_rows_by_name_and_be_outside_any_transaction(url: str) -> None:
    async with opened(url) as store:
        with closing(sqlite3.connect(path_of(url))) as own:
            own.row_factory = sqlite3.Row
            await insert_within(store.jobs, own, [new_job()])
            assert own.in_transaction
            own.commit()
        assert await store.jobs.count(JobFilter()) == {JobState.READY: 1}


async def test_a_sqlalchemy_session_commits_or_rolls_back(url: str) -> None:
    engine = create_engine(url)
    async with opened(url) as store:
        with Session(engine) as session:
            insert_within_sync(store.jobs, session, [new_job()])
            session.rollback()
            assert await store.jobs.count(JobFilter()) == {}
            await insert_within(store.jobs, session, [new_job()])
            session.commit()
        assert await store.jobs.count(JobFilter()) == {JobState.READY: 1}
    engine.dispose()


async def test_a_transaction_that_lost_its_turn_is_told_to_start_again(url: str) -> None:
    async with opened(url) as store:
        with closing(sqlite3.connect(path_of(url), timeout=0)) as own:
            own.execute("begin")
            own.execute("select * from holdfast_job").fetchall()
            await store.jobs.insert([new_job()])
            with pytest.raises(StoreUnavailable, match="roll back and try again"):
                insert_within_sync(store.jobs, own, [new_job()])


async def test_a_file_that_stays_locked_is_reported_as_out_of_reach(url: str) -> None:
    async with opened(f"{url}?busy_timeout=0.05") as store:
        with closing(sqlite3.connect(path_of(url), isolation_level=None)) as other:
            other.execute("begin immediate")
            with pytest.raises(StoreUnavailable, match="another program holds"):
                await store.jobs.insert([new_job()])
            assert await store.jobs.count(JobFilter()) == {}
        assert await store.jobs.insert([new_job()])


async def test_a_newer_schema_is_refused_and_nothing_stays_open(url: str) -> None:
    async with opened(url):
        pass
    with closing(sqlite3.connect(path_of(url))) as other, other:
        other.execute("insert into holdfast_migration values (9999, '9999_later', '?', 0)")
    async with nothing_leaks():
        with pytest.raises(SchemaTooNew):
            await open_store(url).open()


async def test_migrations_build_the_golden_schema(url: str) -> None:
    """On purpose a second copy: a change of the schema must be seen, not only made."""
    async with opened(url):
        pass
    with closing(sqlite3.connect(path_of(url))) as connection:
        rows = connection.execute(
            "select sql from sqlite_schema where sql is not null order by type, name"
        ).fetchall()
    assert "\n\n".join(f"{sql};" for (sql,) in rows) + "\n" == GOLDEN.read_text()


# What migration 24 did, undone: the first column of the key is the last of the table.
LINE_LAST = """
create table kept as select * from holdfast_ready;
drop table holdfast_ready;
create table holdfast_ready (
    queue text not null, priority integer not null, seq integer not null, job_id text not null,
    task text not null, attempts integer not null, crashes integer not null,
    fence integer not null, ties integer not null, ready_at integer not null,
    line integer not null default 0, primary key (line, queue, priority, seq)
) without rowid;
insert into holdfast_ready select queue, priority, seq, job_id, task, attempts, crashes, fence,
    ties, ready_at, line from kept;
drop table kept;
create unique index holdfast_ready_job on holdfast_ready (job_id);
delete from holdfast_migration where version = 24;
"""


async def test_ready_jobs_of_an_older_store_keep_their_place_and_are_not_taken_for_damaged(
    url: str, clock: ManualClock
) -> None:
    async with opened(url, clock) as store:
        scene = await Scene.on(store, clock)
        later = await scene.enqueue_many(2, priority=5)
        sooner = await scene.enqueue_many(2, priority=-5)
    with closing(sqlite3.connect(path_of(url))) as connection:
        connection.executescript(LINE_LAST)
    async with opened(url, clock) as store:
        found = await store.health.check(deep=True)
        assert [one for one in found if one.severity is Severity.PROBLEM] == []
        assert await scene.through(store).line() == [*sooner, *later]


async def test_a_file_migrated_by_hand_needs_no_migration(url: str) -> None:
    store = open_store(url)
    with closing(sqlite3.connect(path_of(url))) as connection:
        connection.executescript(store.migration_sql())
    assert await store.migrate() == []


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///jobs.db", Path("jobs.db").absolute()),
        ("sqlite:////var/lib/my%20jobs.db", Path("/var/lib/my jobs.db")),
        ("sqlite://", None),
    ],
)
def test_a_url_names_a_file_or_memory(url: str, path: Path | None) -> None:
    assert Location.parse(url).path == path


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://jobs.db",
        "sqlite:///jobs.db?synchronous=SOMETIMES",
        "sqlite:///jobs.db?busy_timeout=soon",
        "sqlite:///jobs.db?cache=shared&mode=ro",
    ],
)
def test_a_url_that_says_something_else_is_refused(url: str) -> None:
    with pytest.raises(BadOption):
        open_store(url)


async def test_the_url_chooses_how_durable_a_commit_is(url: str) -> None:
    assert "power loss may lose the last commits" in open_store(url).durability
    assert "survives" in open_store(f"{url}?synchronous=full").durability


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"the folder .*absent does not exist"):
        await open_store(f"sqlite:///{tmp_path}/absent/jobs.db").open()


async def test_open_and_close_may_be_called_twice(url: str) -> None:
    async with nothing_leaks():
        store = open_store(url)
        await store.open()
        await store.open()
        await store.close()
        await store.close()
        with pytest.raises(StoreError, match="not open"):
            await store.jobs.insert([new_job()])
        await store.open()
        assert await store.jobs.insert([new_job()])
        await store.close()


async def test_a_sibling_in_memory_outlives_the_store_it_came_from() -> None:
    store = open_store("sqlite://")
    sibling = store.sibling()
    await store.open()
    await sibling.open()
    await store.jobs.insert([new_job()])
    await store.close()
    assert await sibling.jobs.count(JobFilter()) == {JobState.READY: 1}
    await sibling.close()


async def test_a_store_in_memory_that_was_copied_is_like_one_that_was_migrated(
    tx: Transaction,
) -> None:
    """All but the first of a process are copies."""

    def held(tx: Transaction) -> dict[str, object]:
        made = list(tx.rows("select name, type, tbl_name, sql from sqlite_schema order by name"))
        tables = [name for name, kind, *_ in made if kind == "table"]
        dated = "version, name, checksum"
        kept = {name: dated if name == "holdfast_migration" else "*" for name in tables}
        rows = {name: list(tx.rows(f"select {kept[name]} from {name}")) for name in tables}
        assert len(rows["holdfast_migration"]) > 10
        return {"made": made, **rows}

    migrated = held(tx)
    for _ in range(2):
        async with opened("sqlite://") as store:
            assert isinstance(store, SqliteStore)
            assert await store._writer.read(held) == migrated
            assert await store.migrate() == []
            await store.jobs.insert([new_job()])
    assert schema._first_in_memory


async def test_two_stores_in_memory_are_strangers() -> None:
    async with opened("sqlite://") as one, opened("sqlite://") as other:
        await one.jobs.insert([new_job()])
        assert await other.jobs.count(JobFilter()) == {}


async def test_a_store_serves_several_loops(url: str) -> None:
    async with opened(url) as store:

        def in_a_loop_of_its_own() -> int:
            return len(asyncio.run(store.jobs.insert([new_job(), new_job()])))

        assert await asyncio.to_thread(in_a_loop_of_its_own) == 2
        assert await store.jobs.count(JobFilter()) == {JobState.READY: 2}


async def test_a_forked_child_is_told_to_open_a_store_of_its_own(url: str) -> None:
    forked = """
import asyncio, os, sys, warnings
from holdfast.errors import StoreError
from holdfast.store.contract.filters import JobFilter
from holdfast.store.open import open_store

async def main():
    store = open_store(sys.argv[1])
    await store.open()
    warnings.simplefilter("ignore")  # Python 3.12 and later warn of a fork beside threads
    if child := os.fork():
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    try:
        await store.jobs.count(JobFilter())
    except StoreError as told:
        os._exit(0 if "fork" in str(told) else 2)
    os._exit(3)

asyncio.run(main())
"""
    assert await run_python(forked, url) == (0, "")


@pytest.mark.parametrize("known", [20, 0])
def test_unknown_tasks_in_a_line_are_read_once(tx: Transaction, known: int) -> None:
    connection = tx._cursor.connection  # type: ignore[attr-defined]
    worker = registered(tx)
    insert(tx, [new_job("unknown") for _ in range(3_000)] + [new_job() for _ in range(known)])
    lines = MarkedLines()
    effort: list[int] = []
    for _ in range(4):
        ticks: list[int] = []
        connection.set_progress_handler(lambda ticks=ticks: ticks.append(1), 50)
        assert len(claim_five(lines, tx, worker)) == known // 4
        connection.set_progress_handler(None, 0)
        effort.append(len(ticks))
    assert max(effort[1:]) < effort[0] / 5


def test_a_job_handed_back_elsewhere_is_found_before_the_mark(tx: Transaction) -> None:
    worker = registered(tx)
    insert(tx, [new_job() for _ in range(10)])
    lines = MarkedLines()
    first, *_ = claim_five(lines, tx, worker)
    finish(tx, [decide(job, HandedBack()) for job in live(tx, [first.id])])
    assert claim_five(lines, tx, worker)[0].id == first.id


def test_a_claim_that_was_rolled_back_is_claimed_again(tx: Transaction) -> None:
    worker = registered(tx)
    insert(tx, [new_job() for _ in range(10)])
    lines = MarkedLines()
    tx.run("savepoint before")
    lost = lines.claim(tx, worker, [Want("q", 5)], ["t"])
    tx.run("rollback to before")
    assert [job.id for job in claim_five(lines, tx, worker)] == [job.id for job in lost]


async def test_what_was_read_in_one_opening_is_forgotten_in_the_next() -> None:
    store = open_store("sqlite://")
    for jobs in (5, 1):
        await store.open()
        worker = new_worker_id()
        await store.workers.register(WorkerInfo(worker, "w", "h", 1, {"q": 1}, ("t",), "1"), 60)
        assert await store.jobs.claim(worker, [Want("q", 5)], ["t"]) == []
        await store.jobs.insert([new_job() for _ in range(jobs)])
        assert len(await store.jobs.claim(worker, [Want("q", 5)], ["t"])) == jobs
        await store.close()


def claim_five(lines: MarkedLines, tx: Transaction, worker: WorkerId) -> list[Claimed]:
    """And commit, as far as the marks can tell."""
    claimed = lines.claim(tx, worker, [Want("q", 5)], ["t"])
    assert tx.committed is not None
    tx.committed()
    return claimed


async def test_a_small_insert_waits_its_turn_when_another_program_writes(url: str) -> None:
    async with opened(url) as store:
        with closing(sqlite3.connect(path_of(url), isolation_level=None)) as other:
            other.execute("begin immediate")
            insertion = asyncio.create_task(store.jobs.insert([new_job()]))
            await asyncio.sleep(0.05)
            assert not insertion.done()
            other.execute("commit")
            await insertion
        assert await store.jobs.count(JobFilter()) == {JobState.READY: 1}


async def test_many_small_inserts_do_not_let_the_log_grow(url: str) -> None:
    async with opened(url) as store:
        for n in range(3_000):
            await store.jobs.insert([new_job()])
            if n % 100 == 0:
                await asyncio.sleep(0.02)  # a slow disk takes its time for a checkpoint
        assert size_of_log(url) < 16 * 1024 * 1024  # of some 50 that were written


@pytest.mark.parametrize("level", ["FULL", "NORMAL"])
async def test_a_commit_that_syncs_is_left_to_the_writers_thread(
    url: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()

    def noting(tx: Transaction, jobs: list[NewJob]) -> object:
        threads.add(threading.get_ident())
        return insert(tx, jobs)

    monkeypatch.setattr("holdfast.store.sqlite.inserting.insert", noting)
    async with opened(f"{url}?synchronous={level}") as store:
        await store.jobs.insert([new_job()])
    assert (threading.get_ident() in threads) is (level == "NORMAL")


def registered(tx: Transaction) -> WorkerId:
    worker = new_worker_id()
    tx.run(
        "insert into holdfast_worker"
        " values (?, 'w', 'h', 1, '{}', '[]', '1', 0, 0, ?, ?, 0, 0, '{}', null)",
        (worker, 2**60, 2**60),
    )
    return worker


def size_of_log(url: str) -> int:
    return Path(f"{path_of(url)}-wal").stat().st_size


def path_of(url: str) -> str:
    return url.removeprefix("sqlite:///")
