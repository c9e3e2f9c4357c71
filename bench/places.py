"""Where a workload runs: a fresh, empty store for every single measurement."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import (
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from pathlib import Path
from typing import Protocol

import asyncpg
import psutil

from bench.processor import processor_seconds
from holdfast.store.open import open_store
from holdfast.testing.servers import (
    ThrowawayPostgres,
    ThrowawayValkey,
    find_postgres,
    find_valkey,
)

STORES = ("postgres", "sqlite", "valkey")

SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "4GB"}
"""What a server of this size would be given; fsync and synchronous_commit stay on."""


class Place(Protocol):
    """A kind of store. `url` is its server, for whoever brings a schema of their own."""

    name: str
    url: str

    async def describe(self) -> dict[str, str]:
        """Version and settings, for the record. `server` is its name and release, without what
        only mends: figures of two servers say nothing about each other."""
        ...

    def new_url(self) -> str:
        """Somewhere empty, without Holdfast's schema."""
        ...

    async def settle(self, url: str) -> None:
        """What time would have done to a queue that has been in use."""
        ...

    def discard(self, url: str) -> None: ...

    def server_seconds(self) -> float:
        """Processor time that the server has taken so far; 0 where there is none."""
        ...

    def apart(self) -> AbstractContextManager[Place]:
        """Another place of this kind, whose stores share no table or file with those of this."""
        ...


class OnPostgres:
    """A database of its own on one durable server."""

    name = "postgres"

    def __init__(self, server: ThrowawayPostgres) -> None:
        self._server = server
        self.url = server.url

    async def tune(self) -> None:
        """Give the server memory; takes effect by a restart."""
        for setting, value in SETTINGS.items():
            await _on_postgres(self._server.url, f"alter system set {setting} = '{value}'")
        self._server.restart("fast")

    async def describe(self) -> dict[str, str]:
        names = ("server_version", "fsync", "synchronous_commit", *SETTINGS)
        found = {name: await _on_postgres(self._server.url, f"show {name}") for name in names}
        return {"server": release("Postgres", found["server_version"], 1), **found}

    def new_url(self) -> str:
        return self._server.new_database()

    async def settle(self, url: str) -> None:
        await settle_postgres(url)

    def discard(self, url: str) -> None:
        self._server.drop_database(url)

    def server_seconds(self) -> float:
        pid = int((self._server.data / "postmaster.pid").read_text().split()[0])
        postmaster = psutil.Process(pid)
        running = (pid, *(child.pid for child in postmaster.children(recursive=True)))
        taken = sum(map(processor_seconds, running))
        times = postmaster.cpu_times()  # with connections that were closed
        return float(taken + times.children_user + times.children_system)

    def apart(self) -> AbstractContextManager[Place]:
        return nullcontext(self)

    async def log_statements(self, url: str) -> None:
        """Of this database alone, on connections made from now on."""
        name = url.rpartition("/")[2]
        await _on_postgres(url, f"alter database {name} set log_statement = 'all'")

    def statements_logged(self) -> int:
        log = (self._server.directory / "log").read_text(errors="replace")
        return log.count("LOG:  execute ") + log.count("LOG:  statement: ")


class OnSqlite:
    """A file of its own on a real disk."""

    name = "sqlite"

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="holdfast-bench-")
        self.url = f"sqlite:///{self._folder.name}"
        self._count = 0

    async def describe(self) -> dict[str, str]:
        version = sqlite3.sqlite_version
        server = release("SQLite", version, 2)
        return {"server": server, "version": version, "journal": "wal", "synchronous": "normal"}

    def new_url(self) -> str:
        self._count += 1
        return f"sqlite:///{self._folder.name}/{self._count}.db"

    async def settle(self, url: str) -> None:
        """Nothing: the store keeps no statistics."""

    def discard(self, url: str) -> None:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{sqlite_path(url)}{suffix}").unlink(missing_ok=True)

    def server_seconds(self) -> float:
        return 0.0

    def apart(self) -> AbstractContextManager[Place]:
        return nullcontext(self)


class OnValkey:
    """A namespace of its own on one server that syncs its file every second."""

    name = "valkey"

    def __init__(self, server: ThrowawayValkey) -> None:
        self._server = server
        self.url = server.url

    async def describe(self) -> dict[str, str]:
        name, version = valkey_or_redis(str(self._server.say("INFO", "server")))
        server = release(name, version, 2)
        return {"server": server, "version": version, "appendfsync": "everysec"}

    def new_url(self) -> str:
        return self._server.new_namespace()

    async def settle(self, url: str) -> None:
        """No rewrite of the log left, which the filling started in a process of its own."""
        rewriting = "aof_rewrite_in_progress:1"
        while rewriting in str(self._server.say("INFO", "persistence")):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.05)

    def discard(self, url: str) -> None:
        self._server.say("FLUSHALL")

    def server_seconds(self) -> float:
        told = dict(line.split(":", 1) for line in str(self._server.say("INFO", "cpu")).split()[2:])
        return float(told["used_cpu_user"]) + float(told["used_cpu_sys"])

    @contextmanager
    def apart(self) -> Iterator[Place]:
        """All namespaces of a server share one table of keys."""
        with _valkey() as place:
            yield place


@contextmanager
def places(names: Collection[str]) -> Iterator[list[Place]]:
    """Servers started for the run and gone after it."""
    with ExitStack() as stack:
        found: list[Place] = []
        if "postgres" in names:
            server = ThrowawayPostgres(find_postgres(), durable=True)
            stack.enter_context(server)
            postgres = OnPostgres(server)
            asyncio.run(postgres.tune())
            found.append(postgres)
        if "sqlite" in names:
            found.append(OnSqlite())
        if "valkey" in names:
            found.append(stack.enter_context(_valkey()))
        yield found


@contextmanager
def _valkey() -> Iterator[Place]:
    with ThrowawayValkey(find_valkey(), fsync="everysec") as server:
        yield OnValkey(server)


def release(name: str, version: str, numbers: int) -> str:
    """A server by its name and the first numbers of its version."""
    return f"{name} {'.'.join(version.split('.')[:numbers])}"


def valkey_or_redis(info: str) -> tuple[str, str]:
    """Name and version. Valkey also says which Redis it is compatible with."""
    told = dict(line.split(":", 1) for line in info.split() if ":" in line)
    if "valkey_version" in told:
        return "Valkey", told["valkey_version"]
    return "Redis", told["redis_version"]


def sqlite_path(url: str) -> Path:
    return Path(url.removeprefix("sqlite://"))


@asynccontextmanager
async def bare_url(place: Place) -> AsyncIterator[str]:
    url = place.new_url()
    try:
        yield url
    finally:
        place.discard(url)


@asynccontextmanager
async def store_url(place: Place) -> AsyncIterator[str]:
    """The same with Holdfast's schema in it."""
    async with bare_url(place) as url:
        await open_store(url).migrate()
        yield url


async def settle_postgres(url: str) -> None:
    """Statistics as autovacuum would have made them, and no checkpoint of the filling left."""
    await _on_postgres(url, "analyze")
    await _on_postgres(url, "checkpoint")


async def _on_postgres(url: str, statement: str) -> str:
    connection = await asyncpg.connect(url)
    try:
        return str(await connection.fetchval(statement))
    finally:
        await connection.close()
