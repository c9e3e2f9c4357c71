"""Claims of jobs with limits: the lines whose turn it is, as far as all their buckets have room.

A store remembers where the first line was that could be served (`skip_points`), and begins there. A
claim that comes short looks at all lines.
"""

from __future__ import annotations

import time

from holdfast.store.contract.records import Want
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.pool import Record
from holdfast.store.postgres.skip_points import Point, SkipPoints
from holdfast.store.postgres.wanted import Claim

WIDER, WIDENED_AT_MOST = 4, 5
"""A claim that meets jobs which have to wait looks at so many times more, and so often. Others are
left to the next claim."""


class Admitting:
    """Takes jobs from the lines of a queue, as far as their buckets have room."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._channel = connections.options.channel
        self._line_points = _line_points()

    def forget(self) -> None:
        """Look at all lines again: one that was passed over may be for the next claim."""
        self._line_points.forget()

    async def admit(
        self, asked: Claim, want: Want, *, shared: bool = False, level: int | None = None
    ) -> list[Record]:
        """Jobs with limits of one queue. One call gives the lines one turn each, and locks their
        buckets in order; so there is a call for each turn, until one gives nothing that has skipped
        no line."""
        points = self._line_points if level is None else _line_points()
        found: list[Record] = []
        widened = 0
        while len(found) < want.limit and widened <= WIDENED_AT_MOST:
            began = time.monotonic()
            _, from_priorities, places, to_priorities = points.stretches([want.queue], began)
            skipped = points.queues
            skips = want.queue in skipped
            look = want.limit * WIDER**widened
            limit, free = want.limit - len(found), max(0, want.free - len(found))
            given = await self._connections.timed(
                "limits/admit",
                asked.worker,
                asked.tasks,
                asked.next_number(),
                want.queue,
                limit,
                free,
                shared,
                look,
                self._channel,
                asked.labels,
                level,
                asked.only,
                from_priorities,
                [turn for turn, _ in places],
                [number for _, number in places],
                to_priorities,
                again=False,
            )
            some_wait = bool(given) and given[-1]["job_id"] is None
            if some_wait:
                given.pop()
                widened += 1
            found += given
            short = len(given) < limit and not (shared and given)
            points.learn(given, [want.queue] if short else ())
            if not skipped:  # or what other queues skip would be remembered for longer
                points.scanned_all(began, time.monotonic())
            if not some_wait and (shared if given else not skips):
                break
        return found


def _line_points() -> SkipPoints:
    """Where the lines of jobs with limits begin. A line that was parked comes back to its old
    place: if another store lets it go on, it is found as late as a job that was handed back."""
    return SkipPoints(_first_line, (0, 0))


def _first_line(job: Record) -> Point:
    """The first line that the claim of this job saw in the same priority."""
    return job["queue"], job["priority"], (job["first_turn"], job["first_line"])
