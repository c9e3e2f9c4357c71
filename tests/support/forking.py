"""Runs scripts as programs of their own without importing Holdfast anew for each.

    python -m tests.support.forking

is a process that has imported what nearly every script imports. It reads a line for each script and
runs it in a fork of itself, with its own folder, environment, output and exit code, as `python
script.py` would. `Forks` starts that process and speaks with it.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

ROOT = Path(__file__).parents[2]


class Order(msgspec.Struct):
    """A script to be run. Its output goes to these files."""

    script: str
    folder: str
    env: dict[str, str]
    out: str
    err: str


class Ran(msgspec.Struct):
    """How it ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


class Forks:
    """The process that forks; it ends with the block."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forking"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(self, script: Path, folder: Path, env: dict[str, str]) -> Ran:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as place:
            out, err = Path(place, "out"), Path(place, "err")
            order = Order(str(script), str(folder), env, str(out), str(err))
            self._process.stdin.write(msgspec.json.encode(order) + b"\n")
            self._process.stdin.flush()
            status = int(self._process.stdout.readline())
            return Ran(os.waitstatus_to_exitcode(status), out.read_text(), err.read_text())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.communicate()


def serve() -> Order | None:
    """Answer every line by how its script ended. Returns in a fork, with what it is to run."""
    for line in sys.stdin.buffer:
        order = msgspec.json.decode(line, type=Order)
        child = os.fork()
        if child == 0:
            return order
        _, status = os.waitpid(child, 0)
        print(status, flush=True)
    return None


def become(order: Order) -> None:
    """Leave the pipes of the process that forked, and be the script."""
    for number, path in ((0, os.devnull), (1, order.out), (2, order.err)):
        mode = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT
        opened = os.open(path, mode, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.env)
    sys.argv = [order.script]
    sys.path[0] = str(Path(order.script).parent)
    runpy.run_path(order.script, run_name="__main__")


if __name__ == "__main__":
    import holdfast.client.client
    import holdfast.opened_worker
    import holdfast.store.postgres.store
    import holdfast.store.sqlite.store
    import holdfast.store.valkey.store
    import holdfast.testing  # noqa: F401 - what scripts import

    if (found := serve()) is not None:
        become(found)
