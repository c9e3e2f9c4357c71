"""What can befall a store, for a while: one class a kind of store, one method a fault.

A fault is an async context manager. Inside it the fault is on, and leaving it proves that the
fault was really there before it is taken away.
"""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
import redis

from holdfast.store.open import open_store
from holdfast.testing.servers import ThrowawayPostgres, ThrowawayValkey
from holdfast.testing.servers.resp import Refusal
from tests.support.program import SteppedClock
from tests.support.proxy import Mode, Proxy


class Place:
    """Where the fleet works, and what can go wrong there."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.clock = folder / "clock"

    @asynccontextmanager
    async def stepped(self, seconds: float) -> AsyncIterator[None]:
        """The store's clock is set; it stays so, as after a correction of the time."""
        store = open_store(self.url, clock=SteppedClock(self.clock))
        await store.open()
        try:
            before = await store.now()
            self.clock.write_text(str(seconds))
            moved = (await store.now() - before).total_seconds()
            assert abs(moved - seconds) < 5, f"the store's clock moved by {moved} s"
        finally:
            await store.close()
        yield


class SqlitePlace(Place):
    """A file on a disk of its own, small enough to be filled; to mount one takes root."""

    def __init__(self, folder: Path) -> None:
        self._disk = folder / "disk"
        self._disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(self._disk)]
        subprocess.run(mount, check=True)
        super().__init__(f"sqlite:///{self._disk / 'jobs.db'}", folder)

    async def prepare(self) -> None:
        await open_store(self.url).migrate()

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", str(self._disk)], check=True)

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """A user's own long write transaction on the shared file."""
        path = self.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, isolation_level=None, timeout=10)) as own:
            own.execute("BEGIN IMMEDIATE")
            yield
            own.execute("ROLLBACK")

    @asynccontextmanager
    async def disk_full(self) -> AsyncIterator[None]:
        filler = self._disk / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4_096))
        yield
        with pytest.raises(OSError, match="No space left"):
            (self._disk / "probe").write_bytes(bytes(65_536))
        filler.unlink()


class PostgresPlace(Place):
    def __init__(self, server: ThrowawayPostgres, folder: Path) -> None:
        self._server = server
        self._admin = server.new_database()
        self._role = f"app_{secrets.token_hex(4)}"
        self._proxy = Proxy(self._admin)
        place = urlsplit(self._proxy.url)
        own = place._replace(netloc=f"{self._role}:first@{place.hostname}:{place.port}")
        super().__init__(own.geturl(), folder)

    async def prepare(self) -> None:
        """A role of its own with a password and no more rights than it needs."""
        await open_store(self._admin).migrate()
        self._ask_passwords()
        await self._say(
            f"create role {self._role} login password 'first'",
            f"grant usage on schema holdfast to {self._role}",
            f"grant all on all tables in schema holdfast to {self._role}",
            f"grant all on all sequences in schema holdfast to {self._role}",
        )

    def close(self) -> None:
        self._proxy.close()

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        await asyncio.to_thread(self._server.halt)
        yield
        await asyncio.to_thread(self._server.resume)

    @asynccontextmanager
    async def login_refused(self) -> AsyncIterator[None]:
        await self._say(f"alter role {self._role} nologin", cut=True)
        yield
        await self._refuses(asyncpg.InvalidAuthorizationSpecificationError)
        await self._say(f"alter role {self._role} login")

    @asynccontextmanager
    async def password_rotated(self) -> AsyncIterator[None]:
        await self._say(f"alter role {self._role} password 'second'", cut=True)
        yield
        await self._refuses(asyncpg.InvalidPasswordError)
        await self._say(f"alter role {self._role} password 'first'")

    @asynccontextmanager
    async def connection_limit(self) -> AsyncIterator[None]:
        await self._say(f"alter role {self._role} connection limit 0", cut=True)
        yield
        await self._refuses(asyncpg.TooManyConnectionsError)
        await self._say(f"alter role {self._role} connection limit -1")

    @asynccontextmanager
    async def grant_missing(self) -> AsyncIterator[None]:
        """Connections stay, and nothing may be touched."""
        await self._say(f"revoke usage on schema holdfast from {self._role}")
        yield
        await self._say(f"grant usage on schema holdfast to {self._role}")

    @asynccontextmanager
    async def read_only(self) -> AsyncIterator[None]:
        """Sessions that are opened now take no writes for as long as they live."""
        await self._say(f"alter role {self._role} set default_transaction_read_only = on", cut=True)
        yield
        connection = await asyncpg.connect(self.url)
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await connection.execute("delete from holdfast.counter")
        await connection.close()
        await self._say(f"alter role {self._role} reset default_transaction_read_only")

    @asynccontextmanager
    async def black_hole(self) -> AsyncIterator[None]:
        async with _mode(self._proxy, Mode.BLACK_HOLE):
            yield

    @asynccontextmanager
    async def answers_lost(self) -> AsyncIterator[None]:
        async with _mode(self._proxy, Mode.LOSE_ANSWERS):
            yield

    def _ask_passwords(self) -> None:
        """Only of the role: the tests' own user is trusted."""
        hba = self._server.data / "pg_hba.conf"
        hba.write_text(f"host all {self._role} 127.0.0.1/32 scram-sha-256\n{hba.read_text()}")

    async def _say(self, *statements: str, cut: bool = False) -> None:
        connection = await asyncpg.connect(self._admin)
        try:
            await connection.execute("select pg_reload_conf()")
            for statement in statements:
                await connection.execute(statement)
            if cut:
                await connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity where usename = $1",
                    self._role,
                )
        finally:
            await connection.close()

    async def _refuses(self, why: type[Exception]) -> None:
        with pytest.raises(why):
            await asyncpg.connect(self.url)


class ValkeyPlace(Place):
    def __init__(self, server: ThrowawayValkey, folder: Path) -> None:
        self._server = server
        self._proxy = Proxy(server.new_namespace())
        super().__init__(self._proxy.url, folder)

    async def prepare(self) -> None:
        await open_store(self.url).migrate()

    def close(self) -> None:
        self._proxy.close()

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        await asyncio.to_thread(self._server.halt)
        yield
        await asyncio.to_thread(self._server.resume)

    @asynccontextmanager
    async def password_rotated(self) -> AsyncIterator[None]:
        """From no password to one, and the old connections are ended."""
        with self._admin() as admin:
            admin.config_set("requirepass", "second")
            self._proxy.break_connections()
            yield
            self._refuses("NOAUTH", "PING")
            admin.config_set("requirepass", "")

    @asynccontextmanager
    async def grant_missing(self) -> AsyncIterator[None]:
        with self._admin() as admin:
            admin.execute_command("ACL", "SETUSER", "default", "-eval", "-evalsha")
            yield
            self._refuses("NOPERM", "EVAL", "return 1", 0)
            admin.execute_command("ACL", "SETUSER", "default", "+eval", "+evalsha")

    @asynccontextmanager
    async def memory_limit(self) -> AsyncIterator[None]:
        with self._admin() as admin:
            admin.config_set("maxmemory", 1)
            yield
            self._refuses("OOM", "SET", "probe", 1)
            admin.config_set("maxmemory", 0)

    @asynccontextmanager
    async def connection_limit(self) -> AsyncIterator[None]:
        """The one connection that is allowed is ours."""
        with self._admin() as admin:
            admin.config_set("maxclients", 1)
            self._proxy.break_connections()
            yield
            self._refuses("max number of clients", "PING")
            admin.config_set("maxclients", 10_000)

    def _admin(self) -> redis.Redis:
        return redis.Redis(port=self._server.port, single_connection_client=True)

    def _refuses(self, how: str, *words: str | int) -> None:
        with pytest.raises(Refusal, match=how):
            self._server.say(*words)

    @asynccontextmanager
    async def black_hole(self) -> AsyncIterator[None]:
        async with _mode(self._proxy, Mode.BLACK_HOLE):
            yield

    @asynccontextmanager
    async def answers_lost(self) -> AsyncIterator[None]:
        async with _mode(self._proxy, Mode.LOSE_ANSWERS):
            yield


@asynccontextmanager
async def _mode(proxy: Proxy, mode: Mode) -> AsyncIterator[None]:
    before = proxy.swallowed
    proxy.mode = mode
    yield
    assert proxy.swallowed > before, "nothing was swallowed"
    proxy.mode = Mode.PASS
    proxy.break_connections()
