"""A folder with an app in it, and `holdfast` run there as real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import WorkerInfo
from tests.conformance.builders import new_job
from tests.support.waiting import wait_until

STARTS = 30.0
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


class Shell:
    """A folder with an app in it, and the processes started there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'jobs.db'}"
        self.app = folder / "shop.py"
        self.app.write_text(SHOP.format(url=self.url))
        self.environment: dict[str, str] = {}
        self._started: list[subprocess.Popen[str]] = []

    def start(
        self, *arguments: str, ignoring: signal.Signals | None = None
    ) -> subprocess.Popen[str]:
        """`ignoring`: the process starts with this signal ignored, as under `nohup`."""

        def ignore() -> None:
            if ignoring is not None:
                signal.signal(ignoring, signal.SIG_IGN)

        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli.main", *arguments],
            cwd=self.folder,
            env={k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
            | self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=ignore if ignoring else None,
        )
        self._started.append(process)
        return process

    def run(self, *arguments: str) -> tuple[int, str, str]:
        return ended(self.start(*arguments))

    def end(self) -> None:
        for process in self._started:
            if process.poll() is None:
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.kill()
                process.kill()
            process.communicate()


def ended(process: subprocess.Popen[str], within: float = 60) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=within)
    return process.returncode, out, err


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
