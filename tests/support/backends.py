"""The stores that the suites run on. A new kind of store is one line in `BACKENDS`.

A `Backend` lives for a whole test run and hands out places: `empty()` is a migrated store with
nothing in it, which is what nearly every test wants and therefore quick; `fresh()` is a place
that was never migrated.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import ClassVar, LiteralString, Protocol

import asyncpg
import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from holdfast.clock import Clock
from holdfast.encryption.keyring import Keyring
from holdfast.store.contract.store import Store
from holdfast.store.open import open_store
from holdfast.testing.servers import PostgresServer, ValkeyServer
from tests.support.kept_sessions import KEPT_SESSIONS, database_of
from tests.support.leftovers import Search
from tests.support.pooled import PROGRAM_VARIABLE, direct

KEYS_VARIABLE = "HOLDFAST_TEST_KEYS"
ALL_TABLES: LiteralString = (
    "select format('%I.%I', schemaname, tablename) from pg_tables"
    " where schemaname not in ('pg_catalog', 'information_schema')"
)


class Backend(Protocol):
    """Hands out places for stores of one kind."""

    def fresh(self) -> str:
        """The URL of a place where no store has ever been."""
        ...

    async def empty(self) -> str:
        """The URL of a migrated store without a single row of work."""
        ...

    async def own(self) -> str:
        """The same, of a store that no other test will ever use: what killed processes leave half
        done in it harms nobody."""
        ...


class Inspectable(Backend, Protocol):
    """A backend whose tables a test can look into from outside, past the store."""

    async def query(self, url: str, sql: str) -> list[tuple[object, ...]]:
        """Run a statement and commit it."""
        ...

    async def run(self, url: str, script: str) -> None:
        """Run a script of many statements, as an administrator would by hand."""
        ...

    async def tables(self, url: str) -> list[str]:
        """Every table of the store, ready to be put into a statement."""
        ...


PLAN_ONCE = SQL("alter database {} set plan_cache_mode = force_generic_plan")
NOTHING_ROLLED = "update holdfast.rolling set closed = 'epoch', rolled = 'epoch'"


class SqliteMemory:
    """A new place each time: it is gone when its store is closed."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        pass

    def fresh(self) -> str:
        return "sqlite://"

    async def empty(self) -> str:
        return self.fresh()

    async def own(self) -> str:
        return self.fresh()


class SqliteFile:
    """A file of its own for every store, copied from one that was migrated: that takes less than
    migrating each, or emptying one."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        folders: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
        self._folder = folders.mktemp("stores")
        self._numbers = itertools.count(1)
        self._migrated: Path | None = None

    def fresh(self) -> str:
        return f"sqlite:///{self._folder / f'{next(self._numbers)}.db'}"

    async def empty(self) -> str:
        if self._migrated is None:
            migrated = self.fresh()
            await _migrate(migrated)
            self._migrated = self.path(migrated)
        url = self.fresh()
        shutil.copyfile(self._migrated, self.path(url))
        return url

    async def own(self) -> str:
        return await self.empty()

    @staticmethod
    def path(url: str) -> Path:
        return Path(url.removeprefix("sqlite:///"))

    async def query(self, url: str, sql: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.path(url), timeout=10)) as connection, connection:
            return connection.execute(sql).fetchall()

    async def run(self, url: str, script: str) -> None:
        with closing(sqlite3.connect(self.path(url), isolation_level=None)) as connection:
            connection.executescript(script)

    async def tables(self, url: str) -> list[str]:
        found = await self.query(url, "select name from sqlite_schema where type = 'table'")
        return [f'"{name}"' for (name,) in found if not str(name).startswith("sqlite_")]


class PostgresDatabase:
    """One migrated database for the whole run, emptied for each test that asks.

    Emptied through a connection that stays open: opening one takes longer than the emptying.
    """

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._server: PostgresServer = request.getfixturevalue("postgres")
        self._migrated = _migrated_on(self._server)
        self._shared: str = self._server.new_database(template=self._migrated)
        self._sweeper = psycopg.connect(direct(self._shared), autocommit=True)
        request.addfinalizer(self._sweeper.close)
        tables = [str(name) for (name,) in self._sweeper.execute(ALL_TABLES).fetchall()]
        # DELETE on small tables takes a third of the time of TRUNCATE, which makes new files, and a
        # function is planned once.
        emptied = [t for t in tables if not t.endswith((".migration", ".rolling"))]
        emptied.sort(key=lambda name: name.endswith(".newcomer"))  # rows of others leave some there
        emptying = ";".join([*(f"delete from {t}" for t in emptied), NOTHING_ROLLED])
        body = f"create function pg_temp.empty() returns void as $$begin {emptying}; end$$"
        self._sweeper.execute(f"{body} language plpgsql".encode())

    def fresh(self) -> str:
        return self._server.new_database()

    async def empty(self) -> str:
        self._sweeper.execute("select pg_temp.empty()")
        return self._shared

    async def own(self) -> str:
        return self._server.new_database(template=self._migrated)

    async def query(self, url: str, sql: str) -> list[tuple[object, ...]]:
        connection = await asyncpg.connect(direct(url))
        try:
            return [tuple(row) for row in await connection.fetch(sql)]
        finally:
            await connection.close()

    async def run(self, url: str, script: str) -> None:
        connection = await asyncpg.connect(direct(url))
        try:
            await connection.execute(script)
        finally:
            await connection.close()

    async def tables(self, url: str) -> list[str]:
        return [str(name) for (name,) in await self.query(url, ALL_TABLES)]


_migrated: dict[PostgresServer, str] = {}


def _migrated_on(server: PostgresServer) -> str:
    """A migrated database of the server, to be copied: a copy takes a fifth of a migration."""
    if server not in _migrated:
        url = server.new_database()
        asyncio.run(_migrate(url))
        _migrated[server] = url
    return _migrated[server]


class WarmPostgres(PostgresDatabase):
    """The same, with sessions that are kept from test to test. For tests that do not look at
    sessions; a pooler keeps them by itself.

    Each statement is planned once in a session. By itself the server would plan it for the values
    of each of its first runs, which takes half of its time in tests of a few rows. Fleets, and the
    tests of `stores/postgres` that look at plans, have databases without this setting."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        super().__init__(request)
        self._sweeper.execute(PLAN_ONCE.format(Identifier(database_of(self._shared))))
        if PROGRAM_VARIABLE not in os.environ:
            KEPT_SESSIONS.serve(self._shared)
            request.addfinalizer(lambda: KEPT_SESSIONS.forget(self._shared))


def warm_postgres(request: pytest.FixtureRequest) -> WarmPostgres:
    """The one of this process: every suite goes on with the sessions of the suite before."""
    warm: WarmPostgres = request.getfixturevalue("warm_postgres")
    return warm


class ValkeyNamespace:
    """A namespace of its own for every store: making one costs nothing.

    Every place handed out is remembered until `settle` has looked at what was left in it.
    """

    fixture = "valkey"
    options: ClassVar[dict[str, object]] = {}

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._server: ValkeyServer = request.getfixturevalue(self.fixture)
        self._places: list[str] = []
        self._search = Search()
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        request.addfinalizer(self._end)

    def fresh(self) -> str:
        url = self._server.new_namespace(**self.options)
        self._places.append(url)
        return url

    async def empty(self) -> str:
        return self.fresh()

    async def own(self) -> str:
        url = self.fresh()
        await _migrate(url)
        return url

    def settle(self) -> None:
        """Fail if anything was left that retention would not remove; then remove it all."""
        places, self._places = self._places, []
        for url in places:
            left = self._runner.run(self._search.leftovers(url))
            assert not left, f"retention would leave these keys: {left}"

    def _end(self) -> None:
        self._runner.run(self._search.close())
        self._runner.close()


class ValkeyClusterNamespace(ValkeyNamespace):
    """The same on three nodes, in more partitions than that."""

    fixture = "valkey_nodes"
    options: ClassVar[dict[str, object]] = {"partitions": 8}


BACKENDS: dict[str, Callable[[pytest.FixtureRequest], Backend]] = {
    "sqlite": SqliteMemory,
    "sqlite-file": SqliteFile,
    "postgres": warm_postgres,
    "valkey": ValkeyNamespace,
}

INSPECTABLE: dict[str, Callable[[pytest.FixtureRequest], Inspectable]] = {
    "sqlite-file": SqliteFile,
    "postgres": warm_postgres,
}


async def _migrate(url: str) -> None:
    store = open_store(url)
    try:
        await store.migrate()
    finally:
        await store.close()


@asynccontextmanager
async def opened(url: str, clock: Clock | None = None) -> AsyncIterator[Store]:
    """A store opened for the length of a block. With keys in the environment it encrypts, and has
    to keep every promise of the contract all the same (`make matrix`)."""
    keys = os.environ.get(KEYS_VARIABLE)
    store = open_store(url, clock=clock, keys=Keyring.of_text(keys) if keys else None)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def siblings(store: Store, count: int) -> AsyncIterator[list[Store]]:
    """More stores on the same data, with connections of their own."""
    others = [store.sibling() for _ in range(count)]
    try:
        await asyncio.gather(*(other.open() for other in others))
        yield others
    finally:
        await asyncio.gather(*(other.close() for other in others))
