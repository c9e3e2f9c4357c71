"""A Postgres of our own, made for one test run and gone with it."""

import os
from pathlib import Path

from holdfast.testing.servers.account import Account
from holdfast.testing.servers.binaries import PostgresBinaries
from holdfast.testing.servers.memory import quickest_folder
from holdfast.testing.servers.ports import free_port
from holdfast.testing.servers.postgres import PostgresServer, ServerFailed, StopMode, environment
from holdfast.testing.servers.watchdog import Watchdog

USER = "holdfast"

PORT_TRIES = 10
FIRST_WITH_STRATEGIES = 15
"""To copy the files of a database takes half of the time of writing its pages to the log. It waits
for checkpoints, which cost nothing where nothing is synced."""

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
# Shared memory as files of the data folder: none is left behind by a server that was killed.
# Tests run a statement a few times on a few rows: to compile it takes longer than all its runs.
CARELESS = """
fsync = off
full_page_writes = off
dynamic_shared_memory_type = mmap
jit = off
"""


class ThrowawayPostgres(PostgresServer):
    """A server of our own on a free port, gone without trace when it is stopped or we are.

    `durable` turns fsync on, for benches and for tests of crashes.
    """

    def __init__(self, binaries: PostgresBinaries, *, durable: bool = False) -> None:
        super().__init__(binaries.psql)
        self._binaries = binaries
        self._durable = durable
        if binaries.version >= FIRST_WITH_STRATEGIES and not durable:
            self._strategy = "strategy file_copy"
        self._account = Account.for_servers()
        self._watchdog: Watchdog | None = None
        self._owner = 0

    def start(self) -> None:
        if self._watchdog is not None:
            return
        self._watchdog = Watchdog("holdfast-postgres-", self._folder())
        self._owner = os.getpid()
        try:
            self._account.own(self.directory)
            if not self._programs_are_reachable():
                self._binaries = self._binaries.copy_to(self.directory / "programs")
            self._initialise()
            self._serve_on_a_free_port()
        except BaseException:
            self.stop()
            raise

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

    def _folder(self) -> Path:
        """Programs that must be copied need a disk: containers forbid to run any from memory."""
        disk = self._account.temporary_folder()
        in_memory = not self._durable and self._programs_are_reachable()
        return quickest_folder(otherwise=disk) if in_memory else disk

    def _programs_are_reachable(self) -> bool:
        """A virtual environment under /root, say, is closed to everyone else."""
        return self._account.can_run(self._binaries.program("postgres"))

    def _initialise(self) -> None:
        self._make_data()
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS if self._durable else SETTINGS + CARELESS)
            settings.write("include_if_exists = 'port.conf'\n")

    def _make_data(self) -> None:
        flags = ["--auth=trust", "--encoding=UTF8", "--locale=C", f"--username={USER}"]
        if not self._durable:
            flags.append("--no-sync")
        self._run("initdb", "-D", str(self.data), *flags)

    def _serve_on_a_free_port(self) -> None:
        """A port that was free a moment ago may be taken by now: then the next one."""
        for tries_left in reversed(range(PORT_TRIES)):
            self._take_port(_free_port())
            try:
                self.resume()
                return
            except ServerFailed as failed:
                if not tries_left or "could not create any TCP/IP sockets" not in failed.output:
                    raise

    def _take_port(self, port: int) -> None:
        chosen = self.data / "port.conf"
        chosen.write_text(f"port = {port}\n")
        self._account.own(chosen)
        self.url = f"postgres://{USER}@127.0.0.1:{port}/postgres"

    def _control(self, verb: str, *arguments: str) -> None:
        self._run("pg_ctl", verb, "-D", str(self.data), "-w", "-t", "60", *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        command = [self._binaries.program(program), *arguments]
        done = self._account.run(command, cwd=self.directory, env=environment())
        if done.returncode:
            raise ServerFailed(" ".join(command), done.stdout + self._log())

    def _log(self) -> str:
        log = self.directory / "log"
        return log.read_text(errors="replace")[-4000:] if log.exists() else ""


def _free_port() -> int:
    return free_port("Postgres")
