"""The times of jobs on SQLite. What is pure of it is in `holdfast.store.rolling`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

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
from holdfast.store.sqlite.rows import SECOND, after, to_datetime, to_json, to_micros
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import MINUTE, Row, Transaction
from holdfast.store.sqlite.writer import Verbs

Names = dict[str, object]


class SqliteMeasures(Verbs):
    """The verbs of `holdfast.store.contract.telemetry.Telemetry` about times."""

    async def record(self, measures: Sequence[Measure]) -> datetime:
        rows = [
            (to_minute(one.minute), one.source, one.queue, one.task, one.number, blob)
            for one, blob in ((one, one.times.encoded()) for one in newest(measures))
        ]
        return await self._writer.write(lambda tx: _record(tx, rows))

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
        span = {"since": first_minute(since), "until": first_minute(until)}
        names: Names = {
            "queues": to_json(queues) if queues and grain is not Grain.ALL else None,
            "tasks": to_json(tasks) if tasks and grain is Grain.TASK else None,
        }
        pairs = wanted_pairs(grain, queues, tasks)
        found, counted, measured = await self._writer.read(
            lambda tx: _series(tx, step, span, grain, names, pairs)
        )
        return await to_series(step, grain, found, counted, measured)

    async def times(self) -> list[PairTimes]:
        return await to_ever(await self._writer.read(lambda tx: tx.rows(script("telemetry/times"))))

    async def prune_measures(self, limit: int) -> int:
        return await self._writer.write(lambda tx: _prune(tx, limit))

    # What rolling up needs ----------------------------------------------------------------------

    async def next_due(self) -> Unrolled | None:
        """A look comes first: mostly there is nothing, and a transaction would take the lock."""
        found = await self._writer.read(_find_due)
        if found is None:
            return None
        rolled, sealed, minute = found
        if sealed <= minute:
            seal = steps("telemetry/roll_up")["seal"]
            await self._writer.write(lambda tx: tx.run(seal, {"sealed": minute + 1}))
        return Unrolled(from_minute(rolled), from_minute(minute))

    async def parts_of(self, minute: datetime) -> tuple[list[Counted], list[Measured]]:
        sql, at = steps("telemetry/roll_up"), (to_minute(minute),)
        return await self._writer.read(
            lambda tx: (
                list(_counted(tx.rows(sql["counted"], at))),
                list(_measured(tx.rows(sql["measured"], at))),
            )
        )

    async def points_at(self, starts: Mapping[Step, datetime]) -> list[tuple[Step, Point]]:
        sql = steps("telemetry/roll_up")["points"]

        def work(tx: Transaction) -> list[tuple[Step, Point]]:
            return [
                (step, _point(row))
                for step, at in starts.items()
                for row in tx.rows(sql, {"step": step, "at": to_minute(at)})
            ]

        return await self._writer.read(work)

    async def ever_of(self, pairs: Collection[Pair]) -> list[PairTimes]:
        sql, wanted = steps("telemetry/roll_up")["ever"], {"pairs": to_json(pairs)}
        found = await self._writer.read(lambda tx: tx.rows(sql, wanted))
        return [PairTimes(queue, task, JobTimes.decoded(blob)) for queue, task, blob in found]

    async def write_rolled(self, due: Unrolled, rolled: Rolled) -> bool:
        points = [
            (step, to_minute(at), queue, task, grain_of(queue, task), from_counts(one.counts), blob)
            for (step, at, queue, task), one, blob in (
                (key, one, one.times.encoded()) for key, one in rolled.points.items()
            )
        ]
        ever = [(*pair, times.encoded()) for pair, times in rolled.ever.items()]
        return await self._writer.write(lambda tx: _write_rolled(tx, due, points, ever))


def to_minute(moment: datetime) -> int:
    return to_micros(moment) // MINUTE


def from_minute(minute: int) -> datetime:
    return to_datetime(minute * MINUTE)


def first_minute(moment: datetime) -> int:
    """The first minute that begins at or after this moment."""
    return -(-to_micros(moment) // MINUTE)


def _record(tx: Transaction, rows: Sequence[Row]) -> datetime:
    sql = steps("telemetry/record")
    [(sealed,)] = tx.rows(sql["sealed"])
    tx.each(sql["measure"], [row for row in rows if row[0] >= sealed])
    return from_minute(sealed)


def _find_due(tx: Transaction) -> tuple[int, int, int] | None:
    """The marks, and the oldest minute that is to be rolled up, if it is over for long enough and
    all its moves are folded."""
    [(rolled, sealed, *minutes, unfolded)] = tx.rows(steps("telemetry/roll_up")["due"])
    found = [minute for minute in minutes if minute is not None]
    over = after(tx.now, -OPEN_SECONDS) // MINUTE
    horizon = over if unfolded is None else min(over, unfolded)
    if not found or (min(found) >= horizon and min(found) >= sealed):
        return None
    return rolled, sealed, min(found)


def _series(
    tx: Transaction,
    step: Step,
    span: Mapping[str, int],
    grain: Grain,
    names: Names,
    pairs: Sequence[Pair] | None,
) -> tuple[list[Point], list[Counted], list[Measured]]:
    sql = steps("telemetry/series")
    [(rolled,)] = tx.rows(sql["rolled"])
    if pairs is None:
        wanted = {"step": step, "grain": grain, **span, **names}
        found = tx.rows(sql["of all"], wanted)
    else:
        found = tx.rows(sql["of named"], {"step": step, "pairs": to_json(pairs), **span})
    unrolled = {**names, **span, "since": max(span["since"], rolled)}
    counted = tx.rows(sql["counted"], {**unrolled, "grain": grain})
    return (
        [_point(row) for row in found],
        list(_counted(counted)),
        list(_measured(tx.rows(sql["measured"], unrolled))),
    )


def _write_rolled(
    tx: Transaction, due: Unrolled, points: Sequence[Row], ever: Sequence[Row]
) -> bool:
    sql = steps("telemetry/roll_up")
    following = to_minute(due.minute) + 1
    if not tx.changed(sql["roll"], {"rolled": to_minute(due.rolled), "next": following}):
        return False
    tx.each(sql["point"], points)
    tx.each(sql["add ever"], ever)
    tx.run(sql["forget measures"], (following,))
    return True


def _prune(tx: Transaction, limit: int) -> int:
    gone = 0
    for (step, grain), seconds in KEPT.items():
        oldest = (tx.now - int(seconds * SECOND)) // MINUTE
        wanted = (step, grain, oldest, limit - gone)
        gone += tx.changed(script("telemetry/prune_measures"), wanted)
    return gone


def _counted(rows: Sequence[Row]) -> Iterator[Counted]:
    for minute, queue, task, what, jobs in rows:
        yield from_minute(minute), queue, task, What(what), jobs


def _measured(rows: Sequence[Row]) -> Iterator[Measured]:
    for minute, queue, task, blob in rows:
        yield from_minute(minute), queue, task, blob


def _point(row: Row) -> Point:
    at, queue, task, counts, blob = row
    return Point(from_minute(at), queue, task, to_counts(counts), JobTimes.decoded(blob))
