"""The store answers and does not serve: login, grants, schema, memory. A worker keeps its ends.

The fault lasts until the worker has tried several times; then whoever made it mends it. What had
returned is recorded as that, nothing ran twice, and nothing is left running.
"""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from holdfast.context import Context
from holdfast.errors import AccessRefused, RowRefused, StoreRefuses
from holdfast.job.state import JobState
from holdfast.job.transition import Transition
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.records import Verdict
from holdfast.store.contract.store import Store
from holdfast.store.open import open_store
from holdfast.testing.servers import PostgresServer
from holdfast.testing.servers.throwaway_valkey import ThrowawayValkey
from holdfast.testing.servers.valkey_binaries import find_valkey
from tests.support.backends import PostgresDatabase, opened
from tests.support.waiting import wait_until
from tests.support.working import ONCE, Shop

TRIES = 3


@dataclass(frozen=True, slots=True)
class Fault:
    """What an administrator does to a running program, and undoes."""

    url: str
    do: Callable[[], Awaitable[Any]]
    undo: Callable[[], Awaitable[Any]]


# Postgres ---------------------------------------------------------------------------------


@asynccontextmanager
async def tenant(database: PostgresDatabase) -> AsyncIterator[tuple[str, str, Any]]:
    """A URL of a role that has all it needs, its name, and an administrator's connection."""
    url, name = await database.empty(), f"tenant_{secrets.token_hex(4)}"
    theirs = urlsplit(url)._replace(netloc=f"{name}:pw@{urlsplit(url).netloc.rpartition('@')[2]}")
    dba = await asyncpg.connect(url)
    try:
        await dba.execute(f"create role {name} login password 'pw'")
        await dba.execute(f"grant usage on schema holdfast to {name}")
        await dba.execute(f"grant all on all tables in schema holdfast to {name}")
        await dba.execute(f"grant all on all sequences in schema holdfast to {name}")
        yield theirs.geturl(), name, dba
    finally:
        await dba.execute(f"drop owned by {name} cascade; drop role {name}")
        await dba.close()


END_SESSIONS = "select pg_terminate_backend(pid) from pg_stat_activity where usename = '{name}'"
ON_POSTGRES = {
    "login": ("alter role {name} nologin; " + END_SESSIONS, "alter role {name} login"),
    "grant": (
        "revoke insert, update, delete on holdfast.outcome, holdfast.lease from {name}",
        "grant all on holdfast.outcome, holdfast.lease to {name}",
    ),
    "table": (
        "alter table holdfast.outcome rename to outcome_away",
        "alter table holdfast.outcome_away rename to outcome",
    ),
    "column": (
        "alter table holdfast.outcome rename column result to result_away",
        "alter table holdfast.outcome rename column result_away to result",
    ),
}


@pytest.fixture(scope="module")
def database(request: pytest.FixtureRequest) -> PostgresDatabase:
    return PostgresDatabase(request)


@pytest.fixture(params=ON_POSTGRES)
async def on_postgres(
    request: pytest.FixtureRequest, database: PostgresDatabase
) -> AsyncIterator[Fault]:
    do, undo = ON_POSTGRES[request.param]
    async with tenant(database) as (url, name, dba):
        yield Fault(
            url,
            lambda: dba.execute(do.format(name=name)),
            lambda: dba.execute(undo.format(name=name)),
        )


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.background.outage.LONGEST_WAIT_SECONDS", 0.2)


async def test_postgres_that_refuses_a_program_for_a_while_costs_no_job_anything(
    on_postgres: Fault,
) -> None:
    await nothing_is_lost(on_postgres)


# Valkey -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own_server() -> Iterator[ThrowawayValkey]:
    with ThrowawayValkey(find_valkey()) as server:
        yield server


CUT = ("CLIENT", "KILL", "USER", "tenant")
ON_VALKEY: dict[str, tuple[list[tuple[object, ...]], list[tuple[object, ...]]]] = {
    "password": (
        [("ACL", "SETUSER", "tenant", "resetpass", ">other"), CUT],
        [("ACL", "SETUSER", "tenant", "resetpass", ">pw")],
    ),
    "right": (
        [("ACL", "SETUSER", "tenant", "-evalsha", "-eval")],
        [("ACL", "SETUSER", "tenant", "+@all")],
    ),
    "off": ([("ACL", "SETUSER", "tenant", "off"), CUT], [("ACL", "SETUSER", "tenant", "on")]),
}


@pytest.fixture(params=ON_VALKEY)
def on_valkey(request: pytest.FixtureRequest, own_server: ThrowawayValkey) -> Fault:
    own_server.say("ACL", "SETUSER", "tenant", "reset", "on", ">pw", "~*", "&*", "+@all")
    url = own_server.new_namespace().replace("//", "//tenant:pw@")

    def saying(all_words: Sequence[tuple[object, ...]]) -> Callable[[], Awaitable[None]]:
        def say() -> None:
            for words in all_words:
                own_server.say(*words)  # type: ignore[arg-type]

        return lambda: asyncio.to_thread(say)

    do, undo = ON_VALKEY[request.param]
    return Fault(url, saying(do), saying(undo))


async def test_valkey_that_refuses_a_program_for_a_while_costs_no_job_anything(
    on_valkey: Fault,
) -> None:
    await nothing_is_lost(on_valkey)


# SQLite -----------------------------------------------------------------------------------


async def test_sqlite_without_a_table_for_a_while_costs_no_job_anything(tmp_path: Any) -> None:
    path = tmp_path / "jobs.db"

    async def run(script: str) -> None:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=10)) as connection:
            connection.executescript(script)

    await nothing_is_lost(
        Fault(
            f"sqlite:///{path}",
            lambda: run("alter table holdfast_outcome rename to outcome_away"),
            lambda: run("alter table outcome_away rename to holdfast_outcome"),
        )
    )


async def nothing_is_lost(fault: Fault) -> None:
    """Six jobs return while the store refuses; two of them report progress meanwhile."""
    go_on, runs = asyncio.Event(), list[int]()

    async def slow(ctx: Context, n: int) -> int:
        runs.append(n)
        await go_on.wait()
        if n < 2:
            await ctx.progress(0.5)
        return n

    async with opened(fault.url) as store:
        shop = Shop(store, slow)
        ids = [await shop.enqueue(slow, n, policy=ONCE) for n in range(6)]
        async with shop.worker({"default": 10}, lease=60) as worker:
            await wait_until(lambda: len(runs) == 6, 5, "all run")
            tries = counted_finishes(store)
            await fault.do()
            go_on.set()
            try:
                await wait_until(lambda: len(tries) >= TRIES, 10, "the ends are tried again")
                assert worker.health()["store_says"]
            finally:
                await fault.undo()
            await wait_until(lambda: serves(store), 5, "a connection that nobody refuses")
            for job_id in ids:
                await shop.until(job_id, lambda job: job.state is not JobState.RUNNING)
            await worker.drain()
        jobs = await store.jobs.get(ids)
        assert {(job.state, job.attempts, job.crashes) for job in jobs} == {
            (JobState.SUCCEEDED, 1, 0)
        }
        assert sorted(runs) == list(range(6))
        assert await store.jobs.count(JobFilter()) == {JobState.SUCCEEDED: 6}


async def serves(store: Store) -> bool:
    """What is asked right after the fault shares a connection that was begun before its end."""
    try:
        await store.now()
    except StoreRefuses:
        return False
    return True


def counted_finishes(store: Store) -> list[int]:
    tries, finish = list[int](), store.jobs.finish

    async def counted(transitions: Sequence[Transition]) -> list[Verdict]:
        tries.append(len(transitions))
        return await finish(transitions)

    store.jobs.finish = counted  # type: ignore[method-assign]
    return tries


# At the start -----------------------------------------------------------------------------


async def test_a_wrong_login_is_told_at_once_when_a_store_is_opened(
    own_server: ThrowawayValkey, postgres: PostgresServer
) -> None:
    url = postgres.new_database()
    stranger = urlsplit(url)._replace(
        netloc=f"stranger:pw@{urlsplit(url).netloc.rpartition('@')[2]}"
    )
    for wrong in (stranger.geturl(), own_server.url.replace("//", "//stranger:pw@")):
        async with asyncio.timeout(5):
            with pytest.raises(AccessRefused, match="refuses this program"):
                await open_store(wrong).open()


# The row's own fault ----------------------------------------------------------------------


async def test_only_the_row_that_a_store_cannot_take_fails_and_its_neighbours_succeed(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fine(n: int) -> int:
        return n

    shop = Shop(live_store, fine)
    ids = [await shop.enqueue(fine, n) for n in range(20)]
    finish = live_store.jobs.finish

    async def picky(ends: Sequence[Transition]) -> list[Verdict]:
        if any(end.result == "7" for end in ends):
            raise RowRefused("no sevens")
        return await finish(ends)

    monkeypatch.setattr(live_store.jobs, "finish", picky)
    await shop.drain()
    jobs = await live_store.jobs.get(ids)
    assert [job.state for job in jobs if job.id == ids[7]] == [JobState.FAILED]
    assert [job for job in jobs if job.state is JobState.SUCCEEDED and job.id != ids[7]]
    assert sum(job.state is JobState.SUCCEEDED for job in jobs) == 19


async def test_an_error_that_nobody_knows_holds_up_only_the_row_that_meets_it(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And that row is kept: its return is recorded once the error is over."""
    runs, over = list[int](), asyncio.Event()

    async def fine(n: int) -> int:
        runs.append(n)
        return n

    shop = Shop(live_store, fine)
    ids = [await shop.enqueue(fine, n, policy=ONCE) for n in range(20)]
    finish = live_store.jobs.finish

    async def odd(ends: Sequence[Transition]) -> list[Verdict]:
        if any(end.result == "7" for end in ends) and not over.is_set():
            raise KeyError("a defect")
        return await finish(ends)

    monkeypatch.setattr(live_store.jobs, "finish", odd)
    async with shop.worker() as worker:
        for job_id in ids[:7] + ids[8:]:
            await shop.until(job_id, lambda job: job.state is JobState.SUCCEEDED)
        await wait_until(lambda: bool(shop.reported("job.end_kept")), 5, "the row is kept")
        over.set()
        await shop.until(ids[7], lambda job: job.state is JobState.SUCCEEDED)
        assert worker.health()["unwritten"] == 0
    assert sorted(runs) == list(range(20))


async def test_a_worker_that_gives_an_end_up_looks_for_the_job_that_would_be_stuck(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = list[int]()

    async def fine() -> int:
        runs.append(1)
        return len(runs)

    shop = Shop(live_store, fine)
    job_id = await shop.enqueue(fine)
    finish = live_store.jobs.finish

    async def picky(ends: Sequence[Transition]) -> list[Verdict]:
        if len(runs) == 1 and any(end.to in (JobState.SUCCEEDED, JobState.FAILED) for end in ends):
            raise RowRefused("not even the plain failure")
        return await finish(ends)

    monkeypatch.setattr(live_store.jobs, "finish", picky)
    async with shop.worker():
        job = await shop.until(job_id, lambda job: job.ended)
    assert (job.state, job.result) == (JobState.SUCCEEDED, 2)


def test_what_an_administrator_has_to_mend_is_no_outage_for_a_client() -> None:
    """A client that waits for a grant would hang where it should say what is missing."""
    assert issubclass(AccessRefused, StoreRefuses)
