"""Postgres for tests: a throwaway one of our own, or one that the environment names."""

import os
import random
import secrets
import socket
import subprocess
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from urllib.parse import urlsplit

from holdfast.testing.servers.account import Account
from holdfast.testing.servers.binaries import NoServer, PostgresBinaries, find_postgres
from holdfast.testing.servers.watchdog import Watchdog

URL_VARIABLE = "HOLDFAST_TEST_POSTGRES_URL"
USER = "holdfast"

# Below the range from which systems take the ports of outgoing connections. Inside it, a client
# that keeps dialling a server which is down may be given that very port, connect to itself and
# keep the server from coming back.
PORTS = range(20_000, 32_000)
PORT_TRIES = 10

StopMode = Literal["smart", "fast", "immediate"]

# The time zone is far from UTC and off the full hour: whoever drops a zone gets a wrong answer.
# synchronous_commit stays on: what was acknowledged is in the log even after an immediate stop,
# which is all that tests of outages need; fsync only matters when the machine itself dies.
SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
shared_buffers = '64MB'
max_wal_size = '1GB'
timezone = 'Asia/Kathmandu'
log_timezone = 'Asia/Kathmandu'
lc_messages = 'C'
"""
CARELESS = """
fsync = off
full_page_writes = off
"""


class ServerFailed(RuntimeError):
    """A command on a test server failed; carries what it said."""

    def __init__(self, attempt: str, output: str) -> None:
        super().__init__(f"{attempt} failed:\n{output.strip()}")
        self.output = output


class PostgresServer(ABC):
    """A server that hands out empty databases."""

    url: str

    def __init__(self, binaries: PostgresBinaries) -> None:
        self._binaries = binaries
        self._databases: set[str] = set()

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None:
        """Leave nothing behind. Safe to call twice."""

    @abstractmethod
    def halt(self, mode: StopMode = "immediate") -> None:
        """Begin an outage: stop serving, keep the data."""

    @abstractmethod
    def resume(self) -> None:
        """End an outage: serve again, at the same address."""

    def restart(self, mode: StopMode = "immediate") -> None:
        self.halt(mode)
        self.resume()

    def new_database(self, *, template: str | None = None) -> str:
        """The URL of a fresh database: an empty one, or a copy of the one at URL `template`.

        A template must have no connections while it is copied.
        """
        name = f"holdfast_test_{secrets.token_hex(6)}"
        source = _database_of(template) if template else "template0"
        self._psql('create database :"name" template :"source"', name=name, source=source)
        self._databases.add(name)
        return urlsplit(self.url)._replace(path=f"/{name}").geturl()

    def drop_database(self, url: str) -> None:
        """Drop it even while others are connected, as the leavings of a killed worker are."""
        name = _database_of(url)
        self._psql('drop database if exists :"name" with (force)', name=name)
        self._databases.discard(name)

    def _psql(self, script: str, **values: str) -> None:
        """psql and no driver, so that this package needs none and works in any kind of program."""
        settings = [f"--set={name}={value}" for name, value in values.items()]
        done = subprocess.run(
            [self._binaries.program("psql"), "-Xqw", "-v", "ON_ERROR_STOP=1", *settings, self.url],
            input=script,
            capture_output=True,
            text=True,
            env=_environment(),
        )
        if done.returncode:
            raise ServerFailed(script, done.stderr)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class GivenPostgres(PostgresServer):
    """A server that somebody else runs; only the databases made here are ours to remove."""

    def __init__(self, url: str, binaries: PostgresBinaries) -> None:
        super().__init__(binaries)
        self.url = url

    def start(self) -> None:
        self._psql("select 1")

    def stop(self) -> None:
        for name in tuple(self._databases):
            self.drop_database(f"/{name}")

    def halt(self, mode: StopMode = "immediate") -> None:
        raise ServerFailed(f"halting the server of {URL_VARIABLE}", "it is not ours to stop")

    def resume(self) -> None:
        raise ServerFailed(f"resuming the server of {URL_VARIABLE}", "it is not ours to start")


class ThrowawayPostgres(PostgresServer):
    """A server of our own on a free port, gone without trace when it is stopped or we are.

    `durable` turns fsync on, for benches and for tests of crashes.
    """

    def __init__(self, binaries: PostgresBinaries, *, durable: bool = False) -> None:
        super().__init__(binaries)
        self._durable = durable
        self._account = Account.for_servers()
        self._watchdog: Watchdog | None = None
        self._owner = 0

    def start(self) -> None:
        if self._watchdog is not None:
            return
        self._watchdog = Watchdog("holdfast-postgres-", self._account.temporary_folder())
        self._owner = os.getpid()
        self._account.own(self.directory)
        self._make_programs_reachable()
        self._initialise()
        self._serve_on_a_free_port()

    def stop(self) -> None:
        """In a forked child this does nothing: the server is its parent's."""
        if self._watchdog is None or self._owner != os.getpid():
            return
        self._watchdog.release()
        self._watchdog = None

    def halt(self, mode: StopMode = "immediate") -> None:
        self._control("stop", "-m", mode)

    def resume(self) -> None:
        self._control("start", "-l", str(self.directory / "log"))

    @property
    def directory(self) -> Path:
        if self._watchdog is None:
            raise ServerFailed("asking a server for its directory", "it was not started")
        return self._watchdog.directory

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def _make_programs_reachable(self) -> None:
        folder = self._account.reachable(
            self._binaries.folder, spare=self.directory, program="postgres"
        )
        self._binaries = replace(self._binaries, folder=folder)

    def _initialise(self) -> None:
        flags = ["--auth=trust", "--encoding=UTF8", "--locale=C", f"--username={USER}"]
        if not self._durable:
            flags.append("--no-sync")
        self._run("initdb", "-D", str(self.data), *flags)
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS if self._durable else SETTINGS + CARELESS)
            settings.write("include_if_exists = 'port.conf'\n")

    def _serve_on_a_free_port(self) -> None:
        """A port that was free a moment ago may be taken by now: then the next one."""
        for last in (*(False,) * (PORT_TRIES - 1), True):
            port = _free_port()
            (self.data / "port.conf").write_text(f"port = {port}\n")
            (self.data / "port.conf").chmod(0o644)
            self.url = f"postgres://{USER}@127.0.0.1:{port}/postgres"
            try:
                return self.resume()
            except ServerFailed as failed:
                if last or "could not create any TCP/IP sockets" not in failed.output:
                    raise

    def _control(self, verb: str, *arguments: str) -> None:
        self._run("pg_ctl", verb, "-D", str(self.data), "-w", "-t", "60", *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        command = [self._binaries.program(program), *arguments]
        done = self._account.run(command, cwd=self.directory, env=_environment())
        if done.returncode:
            raise ServerFailed(" ".join(command), done.stdout + self._log())

    def _log(self) -> str:
        log = self.directory / "log"
        return log.read_text(errors="replace")[-4000:] if log.exists() else ""


def postgres_server(*, durable: bool = False, own: bool = False) -> PostgresServer:
    """The server for this test run, not yet started.

    `own` passes over the server of the environment: for tests that halt it, and for benches that
    must know its settings.
    """
    url = os.environ.get(URL_VARIABLE)
    if url and not own:
        return GivenPostgres(url, find_postgres())
    return ThrowawayPostgres(find_postgres(), durable=durable)


def _free_port() -> int:
    for port in random.sample(PORTS, 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise NoServer("Postgres", [f"ports {PORTS.start}–{PORTS.stop}"], "Free one of these ports.")


def _database_of(url: str) -> str:
    return urlsplit(url).path.lstrip("/")


def _environment() -> dict[str, str]:
    """The caller's, less what would lead a Postgres program to another server."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return kept | {"LC_ALL": "C", "PGCONNECT_TIMEOUT": "10"}
