"""What a worker may be told, checked once at the edge."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.errors import BadOption

MOST_THREADS = 64


def own_name() -> str:
    """Host and process id: enough for a person to find the process."""
    return f"{platform.node() or 'localhost'}-{os.getpid()}"


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How one worker works. Times are seconds.

    `queues` gives each queue its slots. `lease` is how long the store trusts the
    worker without a heartbeat; `grace` how long running work may go on after a
    stop; `poll` how often the store is asked for what no wakeup told of.
    `patience` is how long a handler that was told to stop is waited for before
    its job is handed back without it.
    """

    queues: Mapping[str, int]
    lease: float = 30.0
    grace: float = 30.0
    poll: float = 1.0
    patience: float = 5.0
    name: str = field(default_factory=own_name)
    threads: int | None = None
    processes: int | None = None
    batch: int = 500
    max_unwritten: int = 5_000
    max_payload: int = 256 * 1024

    def __post_init__(self) -> None:
        _require_slots(self.queues)
        _require(self.lease >= 0.3, "lease", "at least 0.3 seconds", self.lease)
        _require(self.poll >= 0.01, "poll", "at least 0.01 seconds", self.poll)
        for name in ("grace", "patience"):
            seconds = getattr(self, name)
            _require(0 <= seconds < math.inf, name, "a number of seconds, 0 or more", seconds)
        for name in ("threads", "processes", "batch", "max_unwritten"):
            count = getattr(self, name)
            _require(count is None or count >= 1, name, "at least 1", count)

    @property
    def slots(self) -> int:
        return sum(self.queues.values())

    @property
    def thread_count(self) -> int:
        return self.threads or min(self.slots, MOST_THREADS)

    @property
    def process_count(self) -> int:
        return self.processes or min(self.slots, os.cpu_count() or 1)


def _require_slots(queues: object) -> None:
    if not isinstance(queues, Mapping) or not queues:
        raise BadOption("queues", "queues with their slots, such as {'mail': 10}", queues)
    for queue, slots in queues.items():
        enough = isinstance(slots, int) and slots >= 1
        _require(enough, f"queue {queue!r}: slots", "at least 1", slots)


def _require(holds: bool, option: str, expected: str, got: object) -> None:
    if not holds:
        raise BadOption(option, expected, got)
