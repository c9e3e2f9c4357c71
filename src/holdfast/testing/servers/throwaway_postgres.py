"""A Postgres of our own, made for one test run and gone with it."""

from pathlib import Path

from holdfast.testing.servers.account import Account
from holdfast.testing.servers.binaries import PostgresBinaries
from holdfast.testing.servers.memory import quickest_folder
from holdfast.testing.servers.ports import free_port
from holdfast.testing.servers.postgres import PostgresServer, StopMode, environment
from holdfast.testing.servers.server import ServerFailed
from holdfast.testing.servers.throwaway import Throwaway
from holdfast.testing.servers.watchdog import Watchdog

USER = "holdfast"

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


class ThrowawayPostgres(Throwaway, PostgresServer):
    """`durable` turns fsync on, for benches and for tests of crashes."""

    port_is_taken = "could not create any TCP/IP sockets"

    def __init__(self, binaries: PostgresBinaries, *, durable: bool = False) -> None:
        super().__init__(binaries.psql)
        self._binaries = binaries
        self._durable = durable
        if binaries.version >= FIRST_WITH_STRATEGIES and not durable:
            self._strategy = "strategy file_copy"
        self._account = Account.for_servers()

    def halt(self, mode: StopMode = "immediate") -> None:
        self._control("stop", "-m", mode)

    def resume(self) -> None:
        self._control("start", "-l", str(self.directory / "log"))

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def _new_watchdog(self) -> Watchdog:
        """Programs that must be copied need a disk: containers forbid to run any from memory."""
        disk = self._account.temporary_folder()
        in_memory = not self._durable and self._programs_are_reachable()
        folder = quickest_folder(otherwise=disk) if in_memory else disk
        return Watchdog("holdfast-postgres-", folder)

    def _programs_are_reachable(self) -> bool:
        """A virtual environment under /root, say, is closed to everyone else."""
        return self._account.can_run(self._binaries.program("postgres"))

    def _prepare(self) -> None:
        self._account.own(self.directory)
        if not self._programs_are_reachable():
            self._binaries = self._binaries.copy_to(self.directory / "programs")
        self._make_data()
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS if self._durable else SETTINGS + CARELESS)
            settings.write("include_if_exists = 'port.conf'\n")

    def _make_data(self) -> None:
        flags = ["--auth=trust", "--encoding=UTF8", "--locale=C", f"--username={USER}"]
        if not self._durable:
            flags.append("--no-sync")
        self._run("initdb", "-D", str(self.data), *flags)

    def _take_port(self) -> None:
        port = free_port("Postgres")
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
