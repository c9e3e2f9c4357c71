"""Runs programs without importing Holdfast anew for each.

    python -m tests.support.forking

is a process that has imported what nearly every program imports. It reads an order a line and
answers it: run a program in a fork of itself, with its own folder, environment, output and exit
code, as `python program.py` or `python -m program` would, or tell how such a program ended. Each
test process has one such process, and speaks with it by `Forks`.
"""

from __future__ import annotations

import atexit
import gc
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NoReturn

import msgspec

ROOT = Path(__file__).parents[2]


class Start(msgspec.Struct, tag="start"):
    """Run a script or a module. What it writes is appended to these files."""

    script: str | None
    module: str | None
    arguments: tuple[str, ...]
    folder: str
    env: dict[str, str]
    out: str
    err: str
    ignored: tuple[int, ...] = ()
    """Signals that it ignores from its start, as under `nohup`."""


class Look(msgspec.Struct, tag="look"):
    """Whether a program has ended; with `wait`, not before it has."""

    pid: int
    wait: bool


class Ran(msgspec.Struct):
    """How a script ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


class Forked:
    """A program that was started, to be treated as one of `subprocess`."""

    def __init__(self, forks: Forks, pid: int) -> None:
        self._forks = forks
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._look(wait=False)

    def wait(self) -> int:
        code = self._look(wait=True)
        assert code is not None
        return code

    def _look(self, *, wait: bool) -> int | None:
        if self.returncode is None:
            status = self._forks.ask(Look(self.pid, wait))
            self.returncode = None if status is None else os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """The number of one that has ended is nobody else's until that was told."""
        if self.poll() is None:
            os.kill(self.pid, number)


class Forks:
    """The process that forks. It ends with the process that started it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forking"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        atexit.register(self._process.communicate)

    def ask(self, order: Start | Look) -> int | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(order) + b"\n")
        self._process.stdin.flush()
        answer: int | None = msgspec.json.decode(self._process.stdout.readline())
        return answer

    def start(
        self,
        module: str,
        *arguments: str,
        env: Mapping[str, str],
        log: Path,
        out: Path | None = None,
        folder: Path = ROOT,
        ignored: tuple[int, ...] = (),
    ) -> Forked:
        """Run a module of ours, out of reach of a Ctrl-C meant for the test run. Without `out`, all
        that it writes is in the log."""
        log.touch()
        places = str(folder), dict(env), str(out or log), str(log)
        pid = self.ask(Start(None, module, arguments, *places, ignored))
        assert pid is not None
        return Forked(self, pid)

    def run(
        self, program: Path | str, folder: Path, env: Mapping[str, str], *arguments: str
    ) -> Ran:
        """Run a script, or the module of this name, to its end."""
        script, module = (None, program) if isinstance(program, str) else (str(program), None)
        with tempfile.TemporaryDirectory() as place:
            out, err = Path(place, "out"), Path(place, "err")
            places = str(folder), dict(env), str(out), str(err)
            pid = self.ask(Start(script, module, arguments, *places))
            assert pid is not None
            code = Forked(self, pid).wait()
            return Ran(code, out.read_text(), err.read_text())

    def run_code(self, code: str, *arguments: str) -> Ran:
        """Run this code to its end, with the environment of the tests."""
        with tempfile.TemporaryDirectory() as place:
            script = Path(place, "program.py")
            script.write_text(code)
            return self.run(script, Path(place), os.environ, *arguments)


@cache
def forks() -> Forks:
    return Forks()


# What the process does -----------------------------------------------------------------------


def serve() -> Start | None:
    """Answer every line. Returns in a fork, with what it is to run. A test process that is killed
    ends none of its programs: they are ended here, with the processes that they started."""
    running: set[int] = set()
    orders: msgspec.json.Decoder[Start | Look] = msgspec.json.Decoder(Start | Look)
    for line in sys.stdin.buffer:
        order = orders.decode(line)
        answer: int | None
        if isinstance(order, Look):
            ended, status = os.waitpid(order.pid, 0 if order.wait else os.WNOHANG)
            answer = status if ended else None
            running.discard(ended)
        else:
            answer = os.fork()
            if answer == 0:
                return order
            running.add(answer)
        print(msgspec.json.encode(answer).decode(), flush=True)
    for pid in running:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    return None


def leave(code: object) -> NoReturn:
    """End as the interpreter does, but do not take modules apart: in a fork that copies most of the
    memory, and takes six times as long as to fork. What the program registered to be done at its
    end is done, and its threads are waited for."""
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter does first
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit((code or 0) & 0xFF)


def become(order: Start) -> None:
    """Leave the pipes of the process that forked, and be the program."""
    os.setsid()
    for number, path in ((0, os.devnull), (1, order.out), (2, order.err)):
        mode = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
        opened = os.open(path, mode, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    for ignored in order.ignored:
        signal.signal(ignored, signal.SIG_IGN)
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.env)
    sys.argv = [order.script or "", *order.arguments]
    if order.module is not None:
        sys.orig_argv = [sys.executable, "-m", order.module, *order.arguments]
        sys.path[0] = order.folder
        runpy.run_module(order.module, run_name="__main__", alter_sys=True)
    elif order.script is not None:
        sys.path[0] = str(Path(order.script).parent)
        runpy.run_path(order.script, run_name="__main__")


if __name__ == "__main__":
    import tomllib  # noqa: F401 - what programs import

    import holdfast.cli.program
    import holdfast.cli.worker
    import holdfast.client.client
    import holdfast.codec.schema
    import holdfast.codec.secrets
    import holdfast.opened_worker
    import holdfast.testing  # noqa: F401 - what programs import
    from tests.support.warming import warm_up

    warm_up()
    gc.freeze()  # or the garbage collector of each fork would copy all that was imported
    if (found := serve()) is not None:
        try:
            become(found)
        except SystemExit as left:
            leave(left.code)
        leave(0)
