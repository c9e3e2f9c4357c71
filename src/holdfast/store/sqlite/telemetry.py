"""`Telemetry` on SQLite: the counts that transactions leave in `move`, and what is folded of them.

There is one writer at a time, so a transaction adds to the row of the current minute in place:
`move` has few rows, however many jobs are moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.store.contract.telemetry import TRAFFIC_KEPT, Tally, Total, Traffic
from holdfast.store.sqlite.measures import SqliteMeasures, first_minute, from_minute
from holdfast.store.sqlite.places import TABLES
from holdfast.store.sqlite.ranges import Range, every_range
from holdfast.store.sqlite.rows import SECOND, to_json
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import MINUTE, NOWHERE, Row, Transaction


class SqliteTelemetry(SqliteMeasures):
    """See `holdfast.store.contract.telemetry.Telemetry`."""

    async def tallies(self, queues: Sequence[str] = ()) -> list[Tally]:
        return await self._writer.read(lambda tx: tallies(tx, queues))

    async def totals(self) -> list[Total]:
        return await self._writer.read(totals)

    async def traffic(self, since: datetime, until: datetime) -> list[Traffic]:
        return await self._writer.read(lambda tx: traffic(tx, since, until))

    async def recount(self) -> list[Tally]:
        return await self._writer.read(recount)

    async def correct(self, missing: Sequence[Tally]) -> None:
        rows = [(tally.queue, tally.task, tally.state, tally.jobs) for tally in missing]
        add = steps("telemetry/fold")["tally"]
        await self._writer.write(lambda tx: tx.each(add, rows))

    async def fold(self, limit: int) -> int:
        """A look comes first: mostly there is nothing, and a transaction would take the lock."""
        if not await self._writer.read(_may_fold):
            return 0
        return await self._writer.write(lambda tx: fold(tx, limit))


def tallies(tx: Transaction, queues: Sequence[str] = ()) -> list[Tally]:
    queues_wanted = {"queues": to_json(queues) if queues else None}
    return _tallies(tx.rows(script("telemetry/tallies"), queues_wanted))


def recount(tx: Transaction) -> list[Tally]:
    """All ranges are of one snapshot. In reads of their own they would be of several moments, and
    moves do not say in which range their job is."""
    missing: Counter[tuple[str, str, str]] = Counter()
    for span in every_range(tx):
        for queue, task, state, jobs in _counted(tx, span):
            missing[queue, task, state] += jobs
    for queue, task, state, jobs in tx.rows(steps("telemetry/recount")["books"]):
        missing[queue, task, state] += jobs
    return _tallies((*place, jobs) for place, jobs in missing.items() if jobs)


def _counted(tx: Transaction, span: Range) -> Iterator[Row]:
    sql, values = steps("telemetry/recount"), span._asdict()
    for state, table in TABLES.items():
        for queue, task, jobs in tx.rows(sql["live"].replace("{{place}}", table), values):
            yield queue, task, state.value, jobs
    yield from tx.rows(sql["ended"], values)


def _tallies(rows: Iterable[Row]) -> list[Tally]:
    return [Tally(queue, task, JobState(state), jobs) for queue, task, state, jobs in rows]


def totals(tx: Transaction) -> list[Total]:
    rows = tx.rows(script("telemetry/totals"))
    return [Total(queue, task, What(what), jobs) for queue, task, what, jobs in rows]


def traffic(tx: Transaction, since: datetime, until: datetime) -> list[Traffic]:
    span = {"since": first_minute(since), "until": first_minute(until)}
    return [
        Traffic(from_minute(minute), queue, task, What(what), jobs)
        for minute, queue, task, what, jobs in tx.rows(script("telemetry/traffic"), span)
    ]


def _may_fold(tx: Transaction) -> bool:
    minute = tx.now // MINUTE
    [(there,)] = tx.rows(steps("telemetry/fold")["anything"], (minute, _last_kept(minute)))
    return bool(there)


def _last_kept(minute: int) -> int:
    return minute - int(TRAFFIC_KEPT * SECOND) // MINUTE


def fold(tx: Transaction, limit: int) -> int:
    """The minute that is not over stays: transactions still add to its rows. A closed minute
    takes no more moves: what is folded too late counts in the oldest that is open."""
    sql = steps("telemetry/fold")
    minute = tx.now // MINUTE
    [(closed,)] = tx.rows(sql["closed"])
    moves = tx.rows(sql["moves"], (minute, limit))
    places: Counter[tuple[str, str, str]] = Counter()
    for _, queue, task, source, target, _, jobs in moves:
        places[queue, task, source] -= jobs
        places[queue, task, target] += jobs
    tx.each(
        sql["tally"],
        [(*place, jobs) for place, jobs in places.items() if jobs and place[2] != NOWHERE],
    )
    tx.run(sql["forget empty"])
    tx.each(sql["total"], [(queue, task, what, n) for _, queue, task, _, _, what, n in moves])
    tx.each(
        sql["traffic"],
        [(max(at, closed), queue, task, what, n) for at, queue, task, _, _, what, n in moves],
    )
    tx.each(sql["forget move"], [row[:-1] for row in moves])
    tx.run(sql["forget traffic"], (_last_kept(minute), limit))
    return len(moves)
