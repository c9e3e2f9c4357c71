"""Workers in processes of their own, stopped when the block ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bench.ticks import Ticks, new_ticks

STOP_TIMEOUT = 10.0
ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Workers:
    """Running worker processes and the marks that their handlers left, each in its own file.
    What they log goes to one file, as it would on a server."""

    processes: list[subprocess.Popen[bytes]]
    ticks: list[Ticks]
    log: IO[bytes]

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self.processes]

    def count(self) -> int:
        return sum(ticks.count() for ticks in self.ticks)

    def marks(self) -> list[tuple[int, float]]:
        return [mark for ticks in self.ticks for mark in ticks.read()]

    async def have_marked(self, calls: int, within: float = 120) -> None:
        """Wait until handlers were called so often."""
        await self.until(lambda: self.count() >= calls, f"{calls} handlers ran", within)

    async def until(self, reached: Callable[[], bool], what: str, within: float = 30) -> None:
        """Poll a cheap condition while the processes work towards it."""
        give_up = time.monotonic() + within
        while not reached():
            for process in self.processes:
                if process.poll() is not None:
                    ended = f"a worker process ended with {process.returncode} before {what}"
                    raise RuntimeError(f"{ended}: {self._last_words()}")
            if time.monotonic() > give_up:
                raise RuntimeError(f"{what}: not within {within:g} s")
            await asyncio.sleep(0.003)

    def _last_words(self) -> str:
        self.log.seek(0)
        return self.log.read().decode(errors="replace").strip().rpartition("\n")[2]


@contextmanager
def worker_processes(
    url: str, *, slots: int, calls: int, role: str = "noop", count: int = 1
) -> Iterator[Workers]:
    """`calls`: the most marks that one of them may leave."""
    with ExitStack() as stack:
        log = stack.enter_context(tempfile.TemporaryFile())
        files = [stack.enter_context(new_ticks(calls)) for _ in range(count)]
        commands = [_command(role, url, path, slots) for path, _ in files]
        processes = [stack.enter_context(_running(command, log)) for command in commands]
        yield Workers(processes, [ticks for _, ticks in files], log)


def _command(role: str, url: str, ticks: Path, slots: int) -> list[str]:
    return [sys.executable, "-m", "bench.program", role, url, str(ticks), str(slots)]


@contextmanager
def _running(command: list[str], log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
