"""A Valkey or Redis of our own, made for one test run and gone with it."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Literal

from holdfast.testing.servers.ports import free_port, is_free
from holdfast.testing.servers.resp import Refusal
from holdfast.testing.servers.server import ServerFailed
from holdfast.testing.servers.throwaway import Throwaway
from holdfast.testing.servers.valkey import ValkeyServer
from holdfast.testing.servers.valkey_binaries import ValkeyBinary
from holdfast.testing.servers.watchdog import Watchdog

PATIENCE = 20.0
BUS = 10_000

Fsync = Literal["always", "everysec", "no"]


class ThrowawayValkey(Throwaway, ValkeyServer):
    """`fsync` turns the append-only file on; without it nothing survives an outage. `settings` are
    further lines of its configuration."""

    port_is_taken = "in use"

    def __init__(
        self,
        binary: ValkeyBinary,
        *,
        fsync: Fsync | None = None,
        port: int | None = None,
        cluster: bool = False,
        settings: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self._binary = binary
        self._fsync = fsync
        self._asked_port = port
        self._cluster = cluster
        self._settings = settings
        self.port = 0

    def halt(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Begin an outage: end the process, keep what it wrote."""
        pid = self.pid
        os.kill(pid, how)
        give_up = time.monotonic() + PATIENCE
        # A child of it that rewrites the log holds its socket for a moment longer.
        while _runs(pid) or not is_free(self.port):
            if time.monotonic() > give_up:
                raise ServerFailed("halting the server", f"process {pid} lives on\n{self._log()}")
            time.sleep(0.005)

    def resume(self) -> None:
        """End an outage: serve again, at the same address, from what was written."""
        (self.directory / "pid").unlink(missing_ok=True)
        command = [str(self._binary.program), str(self.directory / "server.conf")]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=self.directory, start_new_session=True
        )
        if done.returncode:
            raise ServerFailed(" ".join(command), done.stdout + done.stderr + self._log())
        self._wait_until_it_serves()

    def restart(self, how: signal.Signals = signal.SIGKILL) -> None:
        self.halt(how)
        self.resume()

    @property
    def pid(self) -> int:
        return int((self.directory / "pid").read_text())

    @property
    def url(self) -> str:  # type: ignore[override]  # known only once a port was found
        return f"valkey://127.0.0.1:{self.port}"

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", self.port)]

    def _new_watchdog(self) -> Watchdog:
        return Watchdog("holdfast-valkey-", Path(tempfile.gettempdir()))

    def _take_port(self) -> None:
        self.port = self._asked_port or free_port("Valkey", also=BUS * self._cluster)
        (self.directory / "server.conf").write_text("\n".join(self._configuration()) + "\n")

    def _configuration(self) -> list[str]:
        """The title begins with a path of ours: by that the watchdog finds the process."""
        home = self.directory
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {home}",
            f"pidfile {home}/pid",
            f"logfile {home}/log",
            "daemonize yes",
            'save ""',
            f"appendonly {'yes' if self._fsync else 'no'}",
            f"appendfsync {self._fsync or 'no'}",
            'proc-title-template "{config-file} {listen-addr}"',
        ]
        if self._cluster:
            lines += ["cluster-enabled yes", "cluster-node-timeout 5000"]
        if self._binary.version >= (7, 0):
            lines.append("enable-debug-command yes")
        return [*lines, *self._settings]

    def _wait_until_it_serves(self) -> None:
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                self.say("PING")
                if (self.directory / "pid").exists():
                    return
            except (OSError, Refusal):  # not listening yet, or still reading its file
                pass
            if time.monotonic() > give_up or self.port_is_taken in self._log():
                raise ServerFailed("starting the server", self._log())
            time.sleep(0.01)


def _runs(pid: int) -> bool:
    """A process that nobody has waited for is over, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        pass
    if Path("/proc/self/stat").exists():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
