"""A peer's workers: started, watched and really stopped, whatever they forked."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO

from bench.peers.scripts.marks import VARIABLE, Marks
from bench.peers.scripts.peer import Peer

FIRST_CALL, ALL_CALLS, FINISHED = 45.0, 180.0, 30.0
STOPPING = 5.0


@dataclass(frozen=True, slots=True)
class Workers:
    marks: Marks
    processes: list[subprocess.Popen[bytes]]
    output: IO[bytes]

    async def have_run(self, calls: int) -> None:
        await self.until(lambda: self.marks.count() > 0, FIRST_CALL, "a first handler call")
        await self.until(lambda: self.marks.count() >= calls, ALL_CALLS, f"{calls} handler calls")

    async def until(self, reached: Callable[[], bool], within: float, what: str) -> None:
        give_up = time.monotonic() + within
        while not reached():
            if time.monotonic() > give_up or all(p.poll() is not None for p in self.processes):
                raise RuntimeError(f"no {what} within {within:g} s; {self._last_words()}")
            await asyncio.sleep(0.003)

    def _last_words(self) -> str:
        self.output.seek(0)
        lines = self.output.read().decode(errors="replace").strip().splitlines()
        ran = f"{self.marks.count()} handlers ran"
        return f"{ran}, and the worker's last line was: {lines[-1] if lines else '(none)'}"


@contextmanager
def workers_of(peer: Peer, count: int = 1) -> Iterator[Workers]:
    marks = Marks()
    with tempfile.TemporaryFile() as output:
        workers = Workers(marks, [], output)
        try:
            for _ in range(count):
                workers.processes.append(_started(peer, marks, output))
            yield workers
        finally:
            for process in workers.processes:
                process.terminate()
            for process in workers.processes:
                _stop(process)
            marks.remove()


def _started(peer: Peer, marks: Marks, output: IO[bytes]) -> subprocess.Popen[bytes]:
    """In a session of its own, so that its children can be found when it is stopped."""
    return subprocess.Popen(
        peer.worker_command(),
        env=os.environ | {VARIABLE: str(marks.path)},
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOPPING)
    except subprocess.TimeoutExpired:
        print(f"worker {process.pid} had to be killed", file=sys.stderr)
    with suppress(ProcessLookupError):  # it left no children
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


async def until_finished(finished: Callable[[], Awaitable[bool]], look_every: float) -> None:
    give_up = time.monotonic() + FINISHED
    while not await finished():
        if time.monotonic() > give_up:
            raise RuntimeError("all handlers ran, but the store does not show all jobs finished")
        await asyncio.sleep(look_every)
