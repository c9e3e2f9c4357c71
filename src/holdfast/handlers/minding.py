"""The minder's own process: it starts the programs of one worker, and none of them outlives it.

A worker that is killed cannot tidy up. So the programs that it runs are children of this process,
each in a session of its own. When the worker's end of the socket closes, for whatever reason, every
program is killed with all that it started. What a program leaves behind when it ends is killed too,
and waited for: an attempt must not end while part of its program still runs.

The worker sends a line for each program, with its standard streams beside it, and a line for each
signal. This side answers with the process id, the exit code, or the error that kept the program
from starting. This file is run by its path and imports nothing of Holdfast, so that it starts in
milliseconds.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

STREAMS = 3
MOST_DESCRIPTORS = 64 * STREAMS
READ_BYTES = 65536
PR_SET_CHILD_SUBREAPER = 36
DYING_SECONDS = 5.0
"""How long the rest of a program is waited for after it was killed: a process that waits for a dead
disk may never end."""
LOOK_SECONDS = 0.02


class Minding:
    """The programs that run now, by the numbers that the worker gave them."""

    def __init__(self, worker: socket.socket) -> None:
        self._worker = worker
        self._read = b""
        self._descriptors: deque[int] = deque()
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._dying: dict[int, float] = {}

    def serve(self, ended: socket.socket) -> None:
        """Until the worker is gone. `ended` can be read when a child has ended."""
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._worker, selectors.EVENT_READ)
            waiting.register(ended, selectors.EVENT_READ)
            while True:
                for key, _ in waiting.select(LOOK_SECONDS if self._dying else None):
                    if key.fileobj is ended:
                        ended.recv(READ_BYTES)
                    elif not self._hear():
                        return
                self._reap()

    def kill_all(self) -> None:
        for program in self._running.values():
            _signal(program.pid, signal.SIGKILL)

    def _hear(self) -> bool:
        """Do what the worker said; whether it is still there."""
        data, descriptors, _, _ = socket.recv_fds(self._worker, READ_BYTES, MOST_DESCRIPTORS)
        if not data:
            return False
        self._descriptors += descriptors
        *lines, self._read = (self._read + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))
        return True

    def _obey(self, order: dict[str, Any]) -> None:
        if "argv" in order:
            self._start(order)
        elif (program := self._running.get(order["id"])) is not None:
            _signal(program.pid, order["signal"])

    def _start(self, order: dict[str, Any]) -> None:
        streams = [self._descriptors.popleft() for _ in range(STREAMS)]
        try:
            program = subprocess.Popen(
                order["argv"],
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                env=order["env"],
                cwd=order["cwd"],
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._say(id=order["id"], kind=type(error).__name__, error=str(error))
        else:
            self._running[order["id"]] = program
            self._say(id=order["id"], pid=program.pid)
        finally:
            for descriptor in streams:
                os.close(descriptor)

    def _reap(self) -> None:
        codes = dict(_ended())
        for number, program in tuple(self._running.items()):
            if program.pid in codes:
                program.returncode = codes[program.pid]
                self._dying[number] = time.monotonic() + DYING_SECONDS
            if number in self._dying:
                is_gone = not _signal(program.pid, signal.SIGKILL)  # what it left behind
                if is_gone or time.monotonic() >= self._dying[number]:
                    del self._running[number], self._dying[number]
                    self._say(id=number, code=program.returncode)

    def _say(self, **message: object) -> None:
        self._worker.sendall(json.dumps(message).encode() + b"\n")


def _ended() -> Iterator[tuple[int, int]]:
    """The children that have ended, with their exit codes: programs, and what these left behind."""
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            yield found[0], os.waitstatus_to_exitcode(found[1])


def _signal(pid: int, number: int) -> bool:
    """To the whole group, whose id is that of its first process; whether there is one."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _adopt() -> None:
    """Processes whose parents end become children of this one, where the system knows how: nobody
    else may be there to reap them."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def main(descriptor: int) -> None:
    _adopt()
    ours, ended = socket.socketpair()
    for one in (ours, ended):
        one.setblocking(False)
    signal.set_wakeup_fd(ours.fileno(), warn_on_full_buffer=False)
    # Only the worker decides what ends. A signal that is ignored would be ignored by every program
    # too; one that is handled is not.
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    minding = Minding(socket.socket(fileno=descriptor))
    try:
        minding.serve(ended)
    except ConnectionError:
        pass  # the worker is gone
    finally:
        minding.kill_all()


if __name__ == "__main__":
    main(int(sys.argv[1]))
