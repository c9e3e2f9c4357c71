"""When a worker leaves by itself: it has ended so many jobs, or its memory has grown too much.

Code that leaks is common and seldom one's own. A worker that retires claims no more and waits for
what runs, however long that takes: with a limit on this wait, a job that takes longer than a worker
lives would be handed from worker to worker and never end. Whoever started the worker starts another
(`holdfast worker` does so by itself).
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from holdfast.errors import BadOption
from holdfast.job.transition import Transition
from holdfast.store.contract.records import Verdict
from holdfast.worker.attempt import Attempt
from holdfast.worker.finisher import Finisher
from holdfast.worker.options import WorkerOptions

CHECK_SECONDS = 1.0
"""Seconds between two looks at the memory."""
MEBIBYTE = 2**20

OnLimit = Callable[[str, int, int], None]
"""Told which limit is reached: its name, how much there is by now, and the limit."""


class Retirement:
    """Tells `on_limit` once, when the first limit is reached. A worker without limits pays
    nothing."""

    def __init__(self, options: WorkerOptions, finisher: Finisher, on_limit: OnLimit) -> None:
        self._max_jobs = options.max_jobs
        self._max_memory = options.max_memory
        self._finisher = finisher
        self._on_limit: OnLimit | None = on_limit
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """A worker that is beyond the limit before its first job would be replaced for ever."""
        used = 0 if self._max_memory is None else resident_memory()
        if self._max_memory is not None and used >= self._max_memory:
            least = f"more than the {used // MEBIBYTE + 1}M that this worker has at its start"
            raise BadOption("max_memory", least, f"{self._max_memory // MEBIBYTE}M")
        if self._max_jobs is not None:
            self._finisher.listeners.add(self._count_jobs)
        if self._max_memory is not None:
            self._look_later()

    def stop(self) -> None:
        self._on_limit = None
        if self._timer is not None:
            self._timer.cancel()

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._look)

    def _look(self) -> None:
        assert self._max_memory is not None
        used = resident_memory()
        if used >= self._max_memory:
            self._reached("max_memory", used, self._max_memory)
        else:
            self._look_later()

    def _count_jobs(
        self, attempt: Attempt | None, transition: Transition, verdict: Verdict
    ) -> None:
        assert self._max_jobs is not None
        ended = self._finisher.counters.ended
        if ended >= self._max_jobs:
            self._reached("max_jobs", ended, self._max_jobs)

    def _reached(self, name: str, value: int, limit: int) -> None:
        on_limit = self._on_limit
        self.stop()
        if on_limit is not None:
            on_limit(name, value, limit)


def resident_memory() -> int:
    """The bytes of memory that this process has now. Where the system does not tell (it has no
    /proc), the most that the process ever had."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")
