"""A worker in a process of its own, stopped when the block ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

STOP_TIMEOUT = 10.0


@contextmanager
def worker_process(url: str, ticks: Path, slots: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "bench.program", url, str(ticks), str(slots)]
    process = subprocess.Popen(command, cwd=Path(__file__).parent.parent)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def until(
    reached: Callable[[], bool], process: subprocess.Popen[bytes], *, within: float, what: str
) -> None:
    """Poll a cheap condition while a worker process works towards it."""
    give_up = time.monotonic() + within
    while not reached():
        if process.poll() is not None:
            raise RuntimeError(f"the worker process ended with {process.returncode} before {what}")
        if time.monotonic() > give_up:
            raise RuntimeError(f"{what}: not within {within:g} s")
        await asyncio.sleep(0.003)
