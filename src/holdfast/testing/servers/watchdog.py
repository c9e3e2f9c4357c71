"""Cleans up after a server when its owner is gone, however the owner went.

The owner keeps one end of a pipe; this file, run as a program of its own, waits on the other. The
program also makes the directory, so that there is no moment at which a killed owner could leave an
unwatched one. It imports the standard library alone and is run by its path, which makes it start
in some 20 ms.

A forked child of the owner inherits the pipe and would keep it open, hence the look at the parent
once a second.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

POLL = 1.0
PATIENCE = 10.0


class Watchdog:
    """The owner's side: `directory` lives until `release()` is called or the owner dies."""

    def __init__(self, prefix: str, parent: Path) -> None:
        # Its own session: Ctrl-C in a terminal is sent to everyone in the owner's.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, prefix, str(parent)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.directory = Path(os.fsdecode(self._process.stdout.readline().strip()))
        self._process.stdout.close()

    def release(self) -> None:
        """Have everything cleaned up, and wait until it is."""
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            self._process.stdin.write(b"\n")  # a forked child may hold the pipe open: no EOF then
            self._process.stdin.close()
        self._process.wait(timeout=3 * PATIENCE)


def main(prefix: str, parent: str) -> None:
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)  # only the owner's end ends the server
    owner = os.getppid()
    directory = Path(tempfile.mkdtemp(prefix=prefix, dir=parent)).resolve()
    try:
        print(directory, flush=True)
        _wait_for_the_end_of(owner)
    finally:
        _stop_everything_in(directory)
        _remove(directory)
        _stop_everything_in(directory)  # one may have been between fork and exec the first time


def _wait_for_the_end_of(owner: int) -> None:
    while os.getppid() == owner:
        if select.select([sys.stdin], [], [], POLL)[0]:
            return


def _stop_everything_in(directory: Path) -> None:
    """Ask with SIGQUIT (Postgres: at once, but give shared memory back), then insist.

    Valkey is asked with SIGTERM: a shell that put the whole run in its background had SIGQUIT
    ignored by everyone who does not handle it.
    """
    for requests in ((signal.SIGQUIT, signal.SIGTERM), (signal.SIGKILL,)):
        for pid, request in product(_residents(directory), requests):
            _send(pid, request)
        give_up = time.monotonic() + PATIENCE
        while _residents(directory):
            if time.monotonic() > give_up:
                break
            time.sleep(0.02)
        else:
            return


def _residents(directory: Path) -> list[int]:
    """Processes that were told to live in the directory.

    Found by command line and not by a pid file, which may be stale and name a stranger, and not
    by working directory, which root in a container may not read.
    """
    home = os.fsencode(directory)
    return [
        pid
        for pid, arguments in _command_lines()
        if pid != os.getpid()
        and any(argument == home or argument.startswith(home + b"/") for argument in arguments)
        and not _is_zombie(pid)
    ]


def _command_lines() -> Iterator[tuple[int, list[bytes]]]:
    if not Path("/proc/self/cmdline").exists():
        listing = subprocess.run(["ps", "-axo", "pid=,args="], capture_output=True, check=True)
        for line in listing.stdout.splitlines():
            pid, *arguments = line.split()
            yield int(pid), arguments
        return
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield int(entry.name), (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # ended between the listing and the look


def _is_zombie(pid: int) -> bool:
    """An ended process that nobody has waited for, as in a container without an init."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def _send(pid: int, request: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended by itself, which is what was wanted
        os.kill(pid, request)


def _remove(directory: Path) -> None:
    """Try again while a last process is still writing its last file."""
    give_up = time.monotonic() + PATIENCE
    while directory.exists() and time.monotonic() < give_up:
        shutil.rmtree(directory, ignore_errors=True)
        if directory.exists():
            time.sleep(0.05)
    if directory.exists():
        print(f"could not remove {directory}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
