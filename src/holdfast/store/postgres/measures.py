"""The times of jobs on Postgres. What is pure of it is in `holdfast.store.rolling`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from holdfast.job.what import What
from holdfast.store.contract.measures import (
    KEPT,
    OPEN_SECONDS,
    Grain,
    JobTimes,
    Measure,
    Pair,
    PairTimes,
    Point,
    Step,
)
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.pool import Record
from holdfast.store.rolling import (
    Counted,
    Measured,
    Rolled,
    Unrolled,
    from_counts,
    grain_of,
    newest,
    roll_up,
    to_counts,
    to_ever,
    to_series,
    wanted_pairs,
)

MINUTE = timedelta(minutes=1)


class PostgresMeasures:
    """The verbs of `holdfast.store.contract.telemetry.Telemetry` about times."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def record(self, measures: Sequence[Measure]) -> datetime:
        rows = [(*one.key, one.number, one.times.encoded()) for one in newest(measures)]
        [(sealed,)] = await self._connections.fetch("telemetry/record", *_columns(rows, 6))
        moment: datetime = sealed
        return moment

    async def roll_up(self, limit: int) -> int:
        return await roll_up(self, limit)

    async def series(
        self,
        step: Step,
        since: datetime,
        until: datetime,
        grain: Grain,
        queues: Sequence[str] = (),
        tasks: Sequence[str] = (),
    ) -> list[Point]:
        pairs = wanted_pairs(grain, queues, tasks)
        found = await self._connections.fetch(
            "telemetry/series",
            int(step),
            since,
            until,
            grain.value,
            [*queues] if queues and grain is not Grain.ALL else None,
            [*tasks] if tasks and grain is Grain.TASK else None,
            *((None, None) if pairs is None else _columns(pairs, 2)),
        )
        points = [_point(row) for row in found if row["counts"] is not None]
        counted = [_counted(row) for row in found if row["what"] is not None]
        measured = [_measured(row) for row in found if row["counts"] is None and row["times"]]
        return await to_series(step, grain, points, counted, measured)

    async def times(self) -> list[PairTimes]:
        found = await self._connections.fetch("telemetry/times")
        return await to_ever([(queue, task, blob) for queue, task, blob in found])

    async def prune_measures(self, limit: int) -> int:
        rows = [(int(step), grain.value, seconds) for (step, grain), seconds in KEPT.items()]
        [(gone,)] = await self._connections.timed(
            "telemetry/prune_measures", limit, *_columns(rows, 3)
        )
        return int(gone)

    # What rolling up needs ----------------------------------------------------------------------

    async def next_due(self) -> Unrolled | None:
        found = await self._connections.timed("telemetry/next_due", OPEN_SECONDS)
        return Unrolled(*found[0]) if found else None

    async def parts_of(self, minute: datetime) -> tuple[list[Counted], list[Measured]]:
        counted = await self._connections.fetch("telemetry/counted", minute)
        measured = await self._connections.fetch("telemetry/measured", minute)
        return [_counted(row) for row in counted], [_measured(row) for row in measured]

    async def points_at(self, starts: Mapping[Step, datetime]) -> list[tuple[Step, Point]]:
        steps = [int(step) for step in starts]
        found = await self._connections.fetch("telemetry/points_at", steps, [*starts.values()])
        return [(Step(row["step"]), _point(row)) for row in found]

    async def ever_of(self, pairs: Collection[Pair]) -> list[PairTimes]:
        found = await self._connections.fetch("telemetry/ever_of", *_columns([*pairs], 2))
        return [PairTimes(queue, task, JobTimes.decoded(blob)) for queue, task, blob in found]

    async def write_rolled(self, due: Unrolled, rolled: Rolled) -> bool:
        points = [
            (
                *(int(step), at, queue, task, grain_of(queue, task).value),
                *(from_counts(point.counts), point.times.encoded()),
            )
            for (step, at, queue, task), point in rolled.points.items()
        ]
        ever = [(*pair, times.encoded()) for pair, times in rolled.ever.items()]
        marks = due.rolled, due.minute + MINUTE
        # Not sent again: a repeated call finds the mark moved, and cannot tell by whom.
        return bool(
            await self._connections.fetch(
                "telemetry/roll_up", *marks, *_columns(points, 7), *_columns(ever, 3), again=False
            )
        )


def _columns(rows: Sequence[Sequence[object]], width: int) -> list[list[object]]:
    return [[row[n] for row in rows] for n in range(width)]


def _counted(row: Record) -> Counted:
    return row["at"], row["queue"], row["task"], What(row["what"]), row["jobs"]


def _measured(row: Record) -> Measured:
    return row["at"], row["queue"], row["task"], row["times"]


def _point(row: Record) -> Point:
    counts, times = to_counts(row["counts"]), JobTimes.decoded(row["times"])
    return Point(row["at"], row["queue"], row["task"], counts, times)
