"""The times of jobs on Postgres. What is pure of it is in `holdfast.store.rolling`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from holdfast.job.what import What
from holdfast.store.contract.measures import KEPT, OPEN_SECONDS, Measure, Pair, Step
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.pool import Record
from holdfast.store.rolling import (
    Counted,
    KeptPoint,
    KeptTimes,
    Measured,
    Measures,
    SeriesFilter,
    Unrolled,
    newest,
)

MINUTE = timedelta(minutes=1)


class PostgresMeasures(Measures):
    """What `holdfast.store.rolling.Measures` leaves to a store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def record(self, measures: Sequence[Measure]) -> datetime:
        rows = [(*one.key, one.number, one.times.encoded()) for one in newest(measures)]
        [(closed,)] = await self._connections.fetch("telemetry/record", *_columns(rows, 6))
        moment: datetime = closed
        return moment

    async def prune_measures(self, limit: int) -> int:
        rows = [(int(step), grain.value, seconds) for (step, grain), seconds in KEPT.items()]
        [(gone,)] = await self._connections.timed(
            "telemetry/prune_measures", limit, *_columns(rows, 3)
        )
        return int(gone)

    async def find_series(
        self, wanted: SeriesFilter
    ) -> tuple[list[KeptPoint], list[Counted], list[Measured]]:
        found = await self._connections.fetch(
            "telemetry/series",
            int(wanted.step),
            wanted.since,
            wanted.until,
            wanted.grain.value,
            wanted.queues or None,
            wanted.tasks or None,
            *((None, None) if wanted.pairs is None else _columns(wanted.pairs, 2)),
        )
        return (
            [_kept(wanted.step, row) for row in found if row["counts"] is not None],
            [_counted(row) for row in found if row["what"] is not None],
            [_measured(row) for row in found if row["counts"] is None and row["times"]],
        )

    async def find_times(self) -> list[KeptTimes]:
        found = await self._connections.fetch("telemetry/times")
        return [(queue, task, blob) for queue, task, blob in found]

    async def next_due(self) -> Unrolled | None:
        found = await self._connections.timed("telemetry/next_due", OPEN_SECONDS)
        return Unrolled(*found[0]) if found else None

    async def parts_of(self, minute: datetime) -> tuple[list[Counted], list[Measured]]:
        counted = await self._connections.fetch("telemetry/counted", minute)
        measured = await self._connections.fetch("telemetry/measured", minute)
        return [_counted(row) for row in counted], [_measured(row) for row in measured]

    async def points_at(self, starts: Mapping[Step, datetime]) -> list[KeptPoint]:
        steps = [int(step) for step in starts]
        found = await self._connections.fetch("telemetry/points_at", steps, [*starts.values()])
        return [_kept(Step(row["step"]), row) for row in found]

    async def ever_of(self, pairs: Collection[Pair]) -> list[KeptTimes]:
        found = await self._connections.fetch("telemetry/ever_of", *_columns([*pairs], 2))
        return [(queue, task, blob) for queue, task, blob in found]

    async def write_rolled(
        self, due: Unrolled, points: Sequence[KeptPoint], ever: Sequence[KeptTimes]
    ) -> bool:
        rows = [
            (int(one.step), one.at, one.queue, one.task, one.grain.value, one.counts, one.times)
            for one in points
        ]
        marks = due.rolled, due.minute + MINUTE
        # Not sent again: a repeated call finds the mark moved, and cannot tell by whom.
        return bool(
            await self._connections.fetch(
                "telemetry/roll_up", *marks, *_columns(rows, 7), *_columns(ever, 3), again=False
            )
        )


def _columns(rows: Sequence[Sequence[object]], width: int) -> list[list[object]]:
    return [[row[n] for row in rows] for n in range(width)]


def _counted(row: Record) -> Counted:
    return row["at"], row["queue"], row["task"], What(row["what"]), row["jobs"]


def _measured(row: Record) -> Measured:
    return row["at"], row["queue"], row["task"], row["times"]


def _kept(step: Step, row: Record) -> KeptPoint:
    return KeptPoint(step, row["at"], row["queue"], row["task"], row["counts"], row["times"])
