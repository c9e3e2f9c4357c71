"""The times of jobs on SQLite. What is pure of it is in `holdfast.store.rolling`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from holdfast.job.what import What
from holdfast.store.contract.measures import KEPT, OPEN_SECONDS, Measure, Pair, Step
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
from holdfast.store.sqlite.rows import SECOND, after, to_datetime, to_json, to_micros
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import MINUTE, Row, Transaction
from holdfast.store.sqlite.writer import Verbs


class SqliteMeasures(Verbs, Measures):
    """What `holdfast.store.rolling.Measures` leaves to a store."""

    async def record(self, measures: Sequence[Measure]) -> datetime:
        rows = [
            (to_minute(one.minute), one.source, one.queue, one.task, one.number, blob)
            for one, blob in ((one, one.times.encoded()) for one in newest(measures))
        ]
        return await self._writer.write(lambda tx: _record(tx, rows))

    async def prune_measures(self, limit: int) -> int:
        return await self._writer.write(lambda tx: _prune(tx, limit))

    async def find_series(
        self, wanted: SeriesFilter
    ) -> tuple[list[KeptPoint], list[Counted], list[Measured]]:
        return await self._writer.read(lambda tx: _series(tx, wanted))

    async def find_times(self) -> list[KeptTimes]:
        found = await self._writer.read(lambda tx: tx.rows(script("telemetry/times")))
        return [(queue, task, blob) for queue, task, blob in found]

    async def next_due(self) -> Unrolled | None:
        """A look comes first: mostly there is nothing, and a transaction would take the lock."""
        found = await self._writer.read(_find_due)
        if found is None:
            return None
        rolled, closed, minute = found
        if closed <= minute:
            close = steps("telemetry/roll_up")["close"]
            await self._writer.write(lambda tx: tx.run(close, {"closed": minute + 1}))
        return Unrolled(from_minute(rolled), from_minute(minute))

    async def parts_of(self, minute: datetime) -> tuple[list[Counted], list[Measured]]:
        sql, at = steps("telemetry/roll_up"), (to_minute(minute),)
        return await self._writer.read(
            lambda tx: (
                list(_counted(tx.rows(sql["counted"], at))),
                list(_measured(tx.rows(sql["measured"], at))),
            )
        )

    async def points_at(self, starts: Mapping[Step, datetime]) -> list[KeptPoint]:
        sql = steps("telemetry/roll_up")["points"]

        def work(tx: Transaction) -> list[KeptPoint]:
            return [
                _kept(step, row)
                for step, at in starts.items()
                for row in tx.rows(sql, {"step": step, "at": to_minute(at)})
            ]

        return await self._writer.read(work)

    async def ever_of(self, pairs: Collection[Pair]) -> list[KeptTimes]:
        sql, wanted = steps("telemetry/roll_up")["ever"], {"pairs": to_json(pairs)}
        found = await self._writer.read(lambda tx: tx.rows(sql, wanted))
        return [(queue, task, blob) for queue, task, blob in found]

    async def write_rolled(
        self, due: Unrolled, points: Sequence[KeptPoint], ever: Sequence[KeptTimes]
    ) -> bool:
        rows = [
            (one.step, to_minute(one.at), one.queue, one.task, one.grain, one.counts, one.times)
            for one in points
        ]
        return await self._writer.write(lambda tx: _write_rolled(tx, due, rows, ever))


def to_minute(moment: datetime) -> int:
    return to_micros(moment) // MINUTE


def from_minute(minute: int) -> datetime:
    return to_datetime(minute * MINUTE)


def first_minute(moment: datetime) -> int:
    """The first minute that begins at or after this moment."""
    return -(-to_micros(moment) // MINUTE)


def _record(tx: Transaction, rows: Sequence[Row]) -> datetime:
    sql = steps("telemetry/record")
    [(closed,)] = tx.rows(sql["closed"])
    tx.each(sql["measure"], [row for row in rows if row[0] >= closed])
    return from_minute(closed)


def _find_due(tx: Transaction) -> tuple[int, int, int] | None:
    """The marks, and the oldest minute that is to be rolled up, if it is over for long enough and
    all its moves are folded."""
    [(rolled, closed, *minutes, unfolded)] = tx.rows(steps("telemetry/roll_up")["due"])
    found = [minute for minute in minutes if minute is not None]
    over = after(tx.now, -OPEN_SECONDS) // MINUTE
    horizon = over if unfolded is None else min(over, unfolded)
    if not found or (min(found) >= horizon and min(found) >= closed):
        return None
    return rolled, closed, min(found)


def _series(
    tx: Transaction, wanted: SeriesFilter
) -> tuple[list[KeptPoint], list[Counted], list[Measured]]:
    sql = steps("telemetry/series")
    span = {"since": first_minute(wanted.since), "until": first_minute(wanted.until)}
    names = {
        "queues": to_json(wanted.queues) if wanted.queues else None,
        "tasks": to_json(wanted.tasks) if wanted.tasks else None,
    }
    [(rolled,)] = tx.rows(sql["rolled"])
    if wanted.pairs is None:
        found = tx.rows(
            sql["of all"], {"step": wanted.step, "grain": wanted.grain, **span, **names}
        )
    else:
        pairs = to_json(wanted.pairs)
        found = tx.rows(sql["of named"], {"step": wanted.step, "pairs": pairs, **span})
    unrolled = {**names, **span, "since": max(span["since"], rolled)}
    counted = tx.rows(sql["counted"], {**unrolled, "grain": wanted.grain})
    return (
        [_kept(wanted.step, row) for row in found],
        list(_counted(counted)),
        list(_measured(tx.rows(sql["measured"], unrolled))),
    )


def _write_rolled(
    tx: Transaction, due: Unrolled, points: Sequence[Row], ever: Sequence[KeptTimes]
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


def _kept(step: Step, row: Row) -> KeptPoint:
    at, queue, task, counts, times = row
    return KeptPoint(step, from_minute(at), queue, task, counts, times)
