"""Where the next claim may start to scan a queue.

A claim scans the ready jobs of a queue from the first. When a forgotten transaction keeps dead rows
there, or thousands of jobs wait whose task this worker does not know, passing over them again at
every claim is what makes a queue slow. So the first row that the last scan took is remembered for
each queue and priority, and the next scan starts there.

A skip point is a guess. A job that is handed back takes its old position, and a transaction may
commit an early number late. So all points are forgotten as soon as this store puts a job back, and
otherwise after fifty times what the last full scan took, so that full scans cost little.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import itemgetter
from typing import Any

LOWEST, HIGHEST = -(2**31), 2**31 - 1
FORGET_AFTER_SECONDS = 1.0
REST_PER_FULL_SCAN = 50

Place = Any
"""Where a row stands among those of its queue and priority."""
Point = tuple[str, int, Place]
Stretches = tuple[list[str], list[int], list[Place], list[int]]


class SkipPoints:
    """For each queue and priority the place of the first row that the last scan took. `of` gives
    the queue, the priority and the place of a row, and `least` is the first place of all."""

    def __init__(
        self,
        of: Callable[[Any], Point] = itemgetter("queue", "priority", "seq"),
        least: Place = 0,
    ) -> None:
        self._of, self._least = of, least
        self._points: dict[str, dict[int, Place]] = {}
        self._forget_at = 0.0

    def forget(self) -> None:
        self._points.clear()

    @property
    def queues(self) -> frozenset[str]:
        """The queues of which a part is skipped."""
        return frozenset(self._points)

    def stretches(self, queues: Sequence[str], now: float) -> Stretches:
        """What to scan, in order: from each point on, and all priorities in between."""
        if now >= self._forget_at:
            self.forget()
        scan: Stretches = ([], [], [], [])
        for queue in queues:
            points = sorted(self._points.get(queue, {}).items())
            starts = [(LOWEST, self._least), *points]
            ends = [priority - 1 for priority, _ in points] + [HIGHEST]
            for (priority, place), end in zip(starts, ends, strict=True):
                if end < priority:
                    continue  # the point is the lowest priority there is: nothing before it
                scan[0].append(queue)
                scan[1].append(priority)
                scan[2].append(place)
                scan[3].append(end)
        return scan

    def learn(self, found: Sequence[Any], short: Collection[str]) -> None:
        """Remember where a scan found its first rows. `found` is in order of priority and place,
        so the first row of each is the lowest. A queue that came back `short` has none left."""
        for queue in short:
            self._points.pop(queue, None)
        backwards = map(self._of, reversed(found))
        first = {(queue, priority): place for queue, priority, place in backwards}
        for (queue, priority), place in first.items():
            if queue not in short:
                self._points.setdefault(queue, {})[priority] = place

    def scanned_all(self, began: float, ended: float) -> None:
        """All queues were scanned from their first rows, which took so long."""
        rest = min(FORGET_AFTER_SECONDS, REST_PER_FULL_SCAN * (ended - began))
        self._forget_at = ended + rest
