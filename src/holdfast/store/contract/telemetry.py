"""The books: how many jobs there are, and what has moved them.

Every verb that moves jobs also counts its moves, in the same transaction or script. So the counts
are exact at any committed moment, and cost by queues and tasks, never by jobs.

Times of jobs are measured by workers, and written down beside the counts. `holdfast.store.rolling`
says how the measures of a minute become points of a series.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.store.contract.measures import Grain, Measure, PairTimes, Point, Step


class Tally(msgspec.Struct, frozen=True, order=True):
    """How many jobs of one task are in one state of one queue."""

    queue: str
    task: str
    state: JobState
    jobs: int


class Total(msgspec.Struct, frozen=True, order=True):
    """How many jobs of one task and queue were ever moved by the same thing."""

    queue: str
    task: str
    what: What
    jobs: int


class Traffic(msgspec.Struct, frozen=True, order=True):
    """How many jobs of one task and queue were moved by the same thing within one minute."""

    at: datetime
    queue: str
    task: str
    what: What
    jobs: int


TRAFFIC_KEPT = 48 * 3600.0
"""Seconds that the moves of a minute are kept apart. After that only the totals know of them."""


class Telemetry(Protocol):
    async def tallies(self, queues: Sequence[str] = ()) -> list[Tally]:
        """How many jobs there are by queue, task and state, where there are any; of all queues, or
        of those named."""
        ...

    async def totals(self) -> list[Total]:
        """How many moves there have ever been, by queue, task and what moved the job. A total never
        goes down."""
        ...

    async def traffic(self, since: datetime, until: datetime) -> list[Traffic]:
        """The moves of the minutes that begin at or after `since` and before `until`, oldest
        first."""
        ...

    async def recount(self) -> list[Tally] | None:
        """How many jobs more there are than the tallies say, negative for fewer; empty if the
        books are right. It reads every job. None if jobs were moved meanwhile and the store
        cannot tell."""
        ...

    async def correct(self, missing: Sequence[Tally]) -> None:
        """Add to the tallies what a recount found missing. Moves since the recount do no harm:
        they change the jobs and the tallies alike."""
        ...

    async def fold(self, limit: int) -> int:
        """Add up to `limit` counts of moves to the tallies, the totals and their minutes, up to
        `limit` counts of errors to the failures, and forget minutes older than `TRAFFIC_KEPT`.
        Returns how many were folded of the kind that had more. It changes no answer of the other
        verbs: it makes them cheap. Any replica may call it at any moment."""
        ...

    async def record(self, measures: Sequence[Measure]) -> datetime:
        """Write down what sources have measured. A measure replaces the one of the same minute,
        source, queue and task, if its number is greater. So a repeated or late call changes
        nothing. Answers the oldest minute that is not closed: measures of minutes before it were
        not taken."""
        ...

    async def roll_up(self, limit: int) -> int:
        """Close the minutes that are over for `OPEN_SECONDS` and whose moves are folded, and add up
        to `limit` of them to the points of all steps, each once. Returns how many. It changes no
        answer of the other verbs: it makes them cheap. Any replica may call it at any moment."""
        ...

    async def series(
        self,
        step: Step,
        since: datetime,
        until: datetime,
        grain: Grain,
        queues: Sequence[str] = (),
        tasks: Sequence[str] = (),
    ) -> list[Point]:
        """The points of the steps that begin at or after `since` and before `until`, oldest first.
        A step in which nothing happened has none. Names narrow the answer where the grain tells
        queues or tasks apart."""
        ...

    async def times(self) -> list[PairTimes]:
        """All times that were ever measured, by queue and task. None of them ever becomes less."""
        ...

    async def prune_measures(self, limit: int) -> int:
        """Remove up to `limit` points that were kept long enough (`KEPT`); returns how many."""
        ...
