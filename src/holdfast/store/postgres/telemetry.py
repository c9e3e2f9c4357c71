"""The books on Postgres.

A statement that moves jobs adds rows to `move`, and waits for nobody. `fold` empties `move` into
tables that have one row for each count.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from holdfast.job.what import What
from holdfast.store.contract.telemetry import TRAFFIC_KEPT, Tally, Total, Traffic
from holdfast.store.postgres.connection import Connections, Session
from holdfast.store.postgres.measures import PostgresMeasures
from holdfast.store.postgres.pool import Record
from holdfast.store.postgres.rows import STATES


class PostgresTelemetry(PostgresMeasures):
    """See `holdfast.store.contract.telemetry.Telemetry` for what each verb promises."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections)
        self._lock = f"holdfast fold {connections.options.schema}"

    async def tallies(self, queues: Sequence[str] = ()) -> list[Tally]:
        return await tallies(self._connections, queues)

    async def totals(self) -> list[Total]:
        found = await self._connections.fetch("telemetry/totals")
        return [Total(queue, task, What(what), jobs) for queue, task, what, jobs in found]

    async def traffic(self, since: datetime, until: datetime) -> list[Traffic]:
        found = await self._connections.fetch("telemetry/traffic", since, until)
        return [
            Traffic(minute, queue, task, What(what), jobs)
            for minute, queue, task, what, jobs in found
        ]

    async def recount(self) -> list[Tally]:
        return _tallies(await self._connections.fetch("telemetry/recount"))

    async def correct(self, missing: Sequence[Tally]) -> None:
        rows = sorted((tally.queue, tally.task, tally.state, tally.jobs) for tally in missing)
        if rows:
            columns = map(list, zip(*rows, strict=True))
            await self._connections.fetch("telemetry/correct", *columns, again=False)

    async def fold(self, limit: int) -> int:
        [(folded,)] = await self._connections.timed(
            "telemetry/fold", self._lock, limit, TRAFFIC_KEPT
        )
        return int(folded)


async def tallies(connections: Connections | Session, queues: Sequence[str]) -> list[Tally]:
    return _tallies(await connections.fetch("telemetry/tallies", [*queues] or None))


def _tallies(found: Sequence[Record]) -> list[Tally]:
    return [Tally(queue, task, STATES[state], jobs) for queue, task, state, jobs in found]
