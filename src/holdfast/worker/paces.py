"""What a meter keeps of one pair of queue and task: its times of a minute, and its pace."""

from __future__ import annotations

import math

from holdfast.store.contract.measures import JobTimes, Pair

MOST_NOTED = 500
"""So many times are noted before they are counted, flush or not."""


class MinuteRow:
    """The times of one pair within one minute. `written` is how many attempts the store is known
    to have. New times are only noted; they are counted together when somebody asks for `times`."""

    __slots__ = ("_times", "_weight", "dirty", "runs", "totals", "waits", "written")

    def __init__(self) -> None:
        self._times = JobTimes.none()
        self._weight = 1
        self.waits: list[float] = []
        self.runs: list[float] = []
        self.totals: list[float] = []
        self.dirty = False
        self.written = 0

    def weigh(self, weight: int) -> None:
        """Each time that is noted from now on stands for so many."""
        if weight != self._weight or len(self.runs) >= MOST_NOTED:
            self._count()
            self._weight = weight

    @property
    def times(self) -> JobTimes:
        self._count()
        return self._times

    @property
    def unwritten(self) -> int:
        return self.times.observed - self.written

    def _count(self) -> None:
        times, weight = self._times, self._weight
        for sketch, noted in (
            (times.wait, self.waits),
            (times.run, self.runs),
            (times.total, self.totals),
        ):
            sketch.observe_all(noted, weight)
            noted.clear()


class PairPace:
    """How fast the attempts of one pair end, and which of them are measured: each, or every
    `every`-th. `seen` are those measured since that changed, `unseen` those that the next measured
    one stands for besides itself. `row` is where the last one was counted."""

    __slots__ = ("ended", "every", "minute", "pair", "row", "seen", "unseen")

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.unseen = self.seen = self.ended = 0
        self.every = 1
        self.minute = -1
        self.row = MinuteRow()

    def adapt(self, most: float) -> None:
        """Begin a new span, in which so many are to be measured if as many end as in the last."""
        self.every = max(1, math.ceil(self.ended / most))
        self.seen = self.ended = 0

    def halve(self) -> None:
        """Measure half as many, until the next span begins."""
        self.every *= 2
        self.seen = 0
