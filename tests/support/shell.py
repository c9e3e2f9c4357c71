"""A folder with an app in it, and `holdfast` run there as real processes.

Each is a fork of a process that has imported the command line (`tests.support.forking`). The
processes that it starts, and what it becomes when it starts anew, are interpreters of their own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import psutil

from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import WorkerInfo
from tests.conformance.builders import new_job
from tests.support.forking import Forked, forks
from tests.support.waiting import wait_until

STARTS = 30.0
LOOK_EVERY = 0.02
SHOP = """
import asyncio

from holdfast import App

app = App({url!r}, lease=2)


@app.task(name="greet")
async def greet(name: str) -> str:
    return f"Hello {{name}}"


@app.task(name="sleep")
async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)
"""


class Command:
    """A `holdfast` that was started, and what it has written since somebody last read it."""

    def __init__(self, program: Forked, out: Path, err: Path) -> None:
        self._program = program
        self._out = out.open()
        self._err = err.open()
        self.pid = program.pid

    @property
    def returncode(self) -> int | None:
        return self._program.returncode

    def poll(self) -> int | None:
        return self._program.poll()

    def send_signal(self, number: signal.Signals) -> None:
        self._program.send_signal(number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def printed(self) -> Iterator[str]:
        """Its lines, as they come, until it has ended."""
        return self._lines(self._out)

    def told(self) -> Iterator[str]:
        """The lines of its log, as they come, until it has ended."""
        return self._lines(self._err)

    def _lines(self, file: IO[str]) -> Iterator[str]:
        line = ""
        while True:
            has_ended = self.poll() is not None
            while part := file.readline():
                line += part
                if line.endswith("\n"):
                    yield line
                    line = ""
            if has_ended:
                return
            time.sleep(LOOK_EVERY)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What it wrote until its end, without what was read before."""
        until = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("holdfast", timeout)
            time.sleep(LOOK_EVERY)
        return self._out.read(), self._err.read()

    def end(self) -> None:
        if self.poll() is None:
            for child in psutil.Process(self.pid).children(recursive=True):
                child.kill()
            self.kill()
            self._program.wait()
        self._out.close()
        self._err.close()


class Shell:
    """A folder with an app in it, and the processes started there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'jobs.db'}"
        self.app = folder / "shop.py"
        self.app.write_text(SHOP.format(url=self.url))
        self.environment: dict[str, str] = {}
        self._started: list[Command] = []
        self._written = tempfile.TemporaryDirectory()

    def start(self, *arguments: str, ignoring: signal.Signals | None = None) -> Command:
        """`ignoring`: the process starts with this signal ignored, as under `nohup`."""
        number = len(self._started)
        out, err = (Path(self._written.name, f"{number}.{kind}") for kind in ("out", "err"))
        out.touch()
        ours = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
        program = forks().start(
            "holdfast.cli.main",
            *arguments,
            env=ours | self.environment,
            log=err,
            out=out,
            folder=self.folder,
            ignored=(ignoring,) if ignoring else (),
        )
        self._started.append(Command(program, out, err))
        return self._started[-1]

    def run(self, *arguments: str) -> tuple[int, str, str]:
        return ended(self.start(*arguments))

    def end(self) -> None:
        for command in self._started:
            command.end()
        self._written.cleanup()


def ended(command: Command, within: float = 60) -> tuple[int, str, str]:
    out, err = command.communicate(timeout=within)
    assert command.returncode is not None
    return command.returncode, out, err


async def enqueue(store: Store, task: str, **arguments: Any) -> JobId:
    [inserted] = await store.jobs.insert([new_job(task, args=json.dumps(arguments))])
    return inserted.id


async def alive(store: Store) -> list[WorkerInfo]:
    return [worker for worker in await store.workers.find() if worker.alive]


async def wait_for_workers(
    store: Store, count: int, *, but: frozenset[int] = frozenset()
) -> set[int]:
    """Their process ids, once so many live workers are there that are not among `but`."""
    found: set[int] = set()

    async def all_there() -> bool:
        nonlocal found
        found = {worker.pid for worker in await alive(store)} - but
        return len(found) == count

    await wait_until(all_there, STARTS, f"{count} workers are alive")
    return found


async def wait_for_state(store: Store, job: JobId, state: JobState) -> None:
    async def reached() -> bool:
        [found] = await store.jobs.get([job])
        return found.state is state

    await wait_until(reached, STARTS, f"the job is {state}")
