"""Clock and processor time of a stretch of work.

Whatever else a machine does changes the clock by a half and processor time by a twentieth
(ADR 68), so a guard that must not be mistaken looks at processor time first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from bench.measure import Sample
from bench.places import Place
from bench.processor import processor_seconds, queued_seconds


class Stopwatch:
    """Runs from when it is made. `processes` are those whose processor time counts beside the
    server's; this one unless others are named."""

    def __init__(self, place: Place, processes: Sequence[int] = ()) -> None:
        self._place = place
        self._processes = processes or (os.getpid(),)
        self._queued = self._waited()
        self._taken = self._processor()
        self._began = time.perf_counter()

    def per_job(self, jobs: int) -> Sample:
        """Jobs per second, and microseconds of each: of processor time, and of waiting for a
        processor, without the server's."""
        took = time.perf_counter() - self._began
        taken, queued = self._processor() - self._taken, self._waited() - self._queued
        return {"rate": jobs / took, "cpu": 1e6 * taken / jobs, "queued": 1e6 * queued / jobs}

    def _processor(self) -> float:
        return self._place.server_seconds() + sum(map(processor_seconds, self._processes))

    def _waited(self) -> float:
        return sum(map(queued_seconds, self._processes))


Start = Callable[[], Stopwatch]
"""Starts a stopwatch: what is made ready before is not counted."""
