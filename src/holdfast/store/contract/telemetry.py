"""The books: how many jobs there are, and what has moved them.

Every verb that moves jobs also counts its moves, in the same transaction or script. So the counts
are exact at any committed moment, and cost by queues and tasks, never by jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from holdfast.store.contract.records import Tally, Total, Traffic

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
