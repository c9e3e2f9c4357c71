"""A bounded walk: how far a page has looked, and what it says about the rest.

Jobs are walked downwards by id, in steps. The first step is small, because most pages are full
after a few jobs. A later step looks at as many jobs as the page seems to need: a store may read all
jobs of a step before it sees that the page is full.

A walk is also bounded in time, because a job that must be fetched from a disk takes ten times as
long as one that is in memory. After its first step a walk looks only at as many jobs as fit into
the time that is left, by what the step before took. A step is never much larger than the one before
it: the jobs in memory may end anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime

from holdfast.job.record import Job
from holdfast.store.contract.reading import WalkBound
from holdfast.store.contract.records import Page

FIRST_LOOK = 1_000
NEXT_LOOK = 20_000
"""How many jobs a later step looks at most, however many the page may look at."""
GROWTH = 4
"""How many times as many jobs as the step before it a step looks at most."""
SPARE = 1.5
"""How many times more jobs a step looks at than would fill the page, if hits were spread evenly."""
NO_JOBS = Page((), None)


class Walk:
    """What one page has found so far. One job more than it may hold says that another follows."""

    def __init__(
        self,
        limit: int,
        cursor: str | None,
        look: WalkBound,
        usual: int = NEXT_LOOK,
        most: int | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`usual`: how many jobs the store looks at, unless it is told. `most`: how many there are
        to be found, where that is known."""
        self.found: list[str] = []
        self.cursor = cursor
        self.looked_at = 0
        self._limit = limit
        self._look = max(1, look.jobs or usual)
        self._wanted = limit + 1 if most is None else min(limit + 1, most)
        self._ended = False
        self._clock = clock
        self._now = clock()
        self._until = self._now + look.seconds
        self._in_time = FIRST_LOOK

    @property
    def room(self) -> int:
        """How many more jobs are wanted."""
        return max(0, self._wanted - len(self.found))

    @property
    def step(self) -> int:
        """How many jobs the next step may look at; 0 when the walk is over."""
        if self._ended or not self.room:
            return 0
        return min(self._look - self.looked_at, self._enough, self._in_time, NEXT_LOOK)

    @property
    def _enough(self) -> int:
        """So many jobs would fill the page, by what was found so far."""
        if not self.looked_at:
            return FIRST_LOOK
        if not self.found:
            return NEXT_LOOK
        return max(FIRST_LOOK, int(SPARE * self.room * self.looked_at / len(self.found)))

    def add(self, found: Sequence[str], looked_at: int, last: str | None, *, ended: bool) -> None:
        """What a step found, and the last job that it looked at. `ended`: there are no others."""
        self.found += found
        self.looked_at += looked_at
        self.cursor = last or self.cursor
        self._ended = ended
        self._in_time = self._fitting(looked_at)

    def _fitting(self, looked_at: int) -> int:
        """How many jobs fit into the time that is left, if they take as long as those of the step
        that ended now; 0 if no time is left."""
        began, self._now = self._now, self._clock()
        left, took = self._until - self._now, max(self._now - began, 1e-6)
        return max(0, int(looked_at * min(GROWTH, left / took)))

    @property
    def ids(self) -> list[str]:
        """The jobs of the page."""
        return self.found[: self._limit]

    @property
    def stopped_at(self) -> str | None:
        """The last job that was looked at, if the page is incomplete."""
        is_over = self._ended or not self.room or len(self.found) >= self._limit
        return None if is_over else self.cursor

    def page(self, jobs: Sequence[Job], reached: datetime | None) -> Page:
        ordered = tuple(sorted(jobs, key=lambda job: job.id, reverse=True))
        return Page(ordered, self._next, self.looked_at, reached, self.stopped_at is None)

    @property
    def _next(self) -> str | None:
        if len(self.found) > self._limit:
            return self.found[self._limit - 1] if self._limit else None
        return None if self._ended or not self.room else self.cursor
