"""How many handlers of one key ran at once, by the diary that the handlers wrote themselves."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.support.diary import Entry
from tests.support.processes import Process


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt: until its handler returned, or its process was killed or stopped."""

    key: str
    job: str
    fence: int
    began: float
    ended: float

    def was_followed_by(self, other: Run) -> bool:
        """Whether the job began again before this attempt had ended."""
        return self.fence < other.fence and other.began < self.ended


def runs_of(entries: Sequence[Entry], processes: Iterable[Process] = ()) -> list[Run]:
    """All attempts, but for those that outlived their lease while their process was alive: a
    machine that is too busy for a heartbeat takes the lease, not the limit. They show as a job
    that began again before its older attempt had returned."""
    gone = {one.pid: _end_of(one) for one in processes}
    returned = {(e.job, e.fence): e.at for e in entries if e.what == "returned"}
    runs = [
        Run(e.text, e.job, e.fence, e.at, min(returned.get((e.job, e.fence), math.inf), end))
        for e in entries
        if e.what == "started"
        for end in [gone.get(e.pid, math.inf)]
    ]
    of_job = defaultdict[str, list[Run]](list)
    for run in runs:
        of_job[run.job].append(run)
    return [run for run in runs if not any(run.was_followed_by(one) for one in of_job[run.job])]


def _end_of(process: Process) -> float:
    return min(process.killed_at or math.inf, process.stopped_at or math.inf)


def most_at_once(runs: Iterable[Run]) -> dict[str, int]:
    """The most runs of each key that lasted at one moment."""
    moments = defaultdict[str, list[tuple[float, int]]](list)
    for run in runs:
        moments[run.key] += [(run.began, 1), (run.ended, -1)]
    most = dict[str, int]()
    for key, found in moments.items():
        running = 0
        for _, change in sorted(found):
            running += change
            most[key] = max(most.get(key, 0), running)
    return most
