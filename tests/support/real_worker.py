"""Real `holdfast worker` processes on `tests.support.rough`."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.forking import Forked, forks
from tests.support.rough import PLAIN_LOOP
from tests.support.waiting import wait_until


class RealWorkers:
    """The workers of one test, and what their handlers noted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Forked] = []
        self.notes_path = folder / "notes"

    def start(self, url: str, *arguments: str, slots: int = 4, plain_loop: bool = False) -> Forked:
        command = ["worker", "tests.support.rough:app", "--queues", f"default:{slots}"]
        own = {"HOLDFAST_URL": url, "NOTES": str(self.notes_path)}
        process = forks().start(
            "tests.support.rough",
            *(*command, *arguments),
            env=os.environ | own | ({PLAIN_LOOP: "1"} if plain_loop else {}),
            log=self._folder / f"{len(self._started)}.log",
        )
        self._started.append(process)
        return process

    def notes(self) -> list[str]:
        return self.notes_path.read_text().splitlines() if self.notes_path.exists() else []

    async def noted(self, text: str, count: int = 1) -> None:
        await wait_until(lambda: self.notes().count(text) >= count, 20, f"{text!r} is noted")

    def log(self, number: int = 0) -> str:
        return (self._folder / f"{number}.log").read_text(errors="replace")

    def end(self) -> None:
        for number, process in enumerate(self._started):
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
            print(f"--- worker {number}: {process.returncode}\n{self.log(number)[-4000:]}")


@contextmanager
def real_workers(folder: Path) -> Iterator[RealWorkers]:
    workers = RealWorkers(folder)
    try:
        yield workers
    finally:
        workers.end()


async def seconds_to_leave(
    process: Forked, *signals: signal.Signals, within: float = 30, pause: float = 1
) -> float:
    """From the last of these signals to the end of the process."""
    began = time.monotonic()
    for n, number in enumerate(signals):
        if n:
            time.sleep(pause)  # noqa: ASYNC251 - the process that is waited for is another
        began = time.monotonic()
        process.send_signal(number)
    await wait_until(lambda: process.poll() is not None, within, "the worker leaves")
    return time.monotonic() - began
