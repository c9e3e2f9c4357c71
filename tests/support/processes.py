"""Real worker and enqueuer processes: started, signalled, and always reaped."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.support.diary import DiaryReader
from tests.support.forking import forks
from tests.support.program import DIARY
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
STARTS_WITHIN = 20.0


PROGRAM = "tests.support.program"


class Process:
    """One process of the test program."""

    def __init__(
        self, program: str, role: str, options: dict[str, Any], env: dict[str, str], log: Path
    ) -> None:
        self.role = role
        self.log = log
        self.killed_at: float | None = None
        self.stopped_at: float | None = None
        arguments = role, msgspec.json.encode(options).decode()
        self._program = forks().start(program, *arguments, env=env, log=log)

    @property
    def pid(self) -> int:
        return self._program.pid

    @property
    def alive(self) -> bool:
        return self._program.poll() is None

    def send(self, number: signal.Signals) -> float:
        """Returns when it was sent, on the clock of the diary."""
        sent = time.monotonic()
        self._program.send_signal(number)
        return sent

    def kill(self) -> float:
        """As the machine's memory killer would: nothing of the process runs after this."""
        self.killed_at = self.send(signal.SIGKILL)
        self._program.wait()
        return self.killed_at

    def stop(self) -> float:
        """Nothing of the process runs until it is sent on."""
        self.stopped_at = self.send(signal.SIGSTOP)
        return self.stopped_at

    def terminate(self) -> float:
        return self.send(signal.SIGTERM)

    async def exit_code(self, within: float) -> int:
        await wait_until(lambda: not self.alive, within, f"{self.role} {self.pid} exits")
        return self._program.wait()

    def end(self) -> None:
        """Whatever it is doing, also when it is stopped. One that ended by itself is left alone:
        its number may be somebody else's by now."""
        if self.alive:
            self.kill()


class Fleet:
    """The processes of one test, on one store, writing into one diary."""

    def __init__(self, url: str, folder: Path, program: str = PROGRAM, **env: str) -> None:
        self.url = url
        self.folder = folder
        self._program = program
        self._env = env
        self.diary_path = folder / "diary"
        self.diary = DiaryReader(self.diary_path)
        self.processes: list[Process] = []

    def start(self, role: str, **options: Any) -> Process:
        env = os.environ | {"HOLDFAST_URL": self.url, DIARY: str(self.diary_path), **self._env}
        log = self.folder / f"{role}-{len(self.processes)}.log"
        process = Process(self._program, role, options, env, log)
        self.processes.append(process)
        return process

    def deploy(self, **env: str) -> None:
        """Let the processes that are started from now on have these variables too."""
        self._env |= env

    def worker(self, slots: int = 4, *, lease: float = 2.0, **options: Any) -> Process:
        return self.start("worker", queues={"default": slots}, lease=lease, **options)

    async def workers(self, count: int = 1, **options: Any) -> list[Process]:
        """So many workers, when all of them are at work."""
        started = [self.worker(**options) for _ in range(count)]
        await self.ready(*started)
        return started

    async def ready(self, *processes: Process) -> None:
        def all_ready() -> bool:
            for process in processes:
                assert process.alive, f"{process.role} ended at its start:\n{tail(process.log)}"
            ready = {entry.pid for entry in self.diary.entries("ready")}
            return all(process.pid in ready for process in processes)

        await wait_until(all_ready, STARTS_WITHIN, "the processes are ready")

    def alive(self, role: str = "worker") -> list[Process]:
        return [each for each in self.processes if each.role == role and each.alive]

    def logs(self) -> str:
        return "\n".join(f"--- {each.log.name}\n{tail(each.log)}" for each in self.processes)

    def end(self) -> None:
        for process in self.processes:
            process.end()
        self.diary.close()


@contextmanager
def fleet_on(url: str, folder: Path, program: str = PROGRAM, **env: str) -> Iterator[Fleet]:
    """A fleet for the length of a block. What it logged is printed, which pytest shows for a
    test that failed and for no other."""
    fleet = Fleet(url, folder, program, **env)
    try:
        yield fleet
    finally:
        fleet.end()
        print(fleet.logs())


def tail(log: Path, size: int = 3_000) -> str:
    return log.read_text(errors="replace")[-size:]


async def run_python(code: str, *arguments: str) -> tuple[int, str]:
    """Run this code in a program of its own; answers its exit code and what it complained of."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, *arguments, cwd=ROOT, stderr=asyncio.subprocess.PIPE
    )
    _, told = await process.communicate()
    assert process.returncode is not None
    return process.returncode, told.decode()
