"""The books on Postgres.

A statement that moves jobs adds rows to `move`, and waits for nobody. `fold` empties `move` into
tables that have one row for each count.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from holdfast.job.what import What
from holdfast.store.contract.records import Tally, Total, Traffic
from holdfast.store.contract.telemetry import TRAFFIC_KEPT
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.rows import STATES


class PostgresTelemetry:
    """See `holdfast.store.contract.telemetry.Telemetry` for what each verb promises."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
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

    async def fold(self, limit: int) -> int:
        [(folded,)] = await self._connections.timed(
            "telemetry/fold", self._lock, limit, TRAFFIC_KEPT
        )
        return int(folded)


async def tallies(connections: Connections, queues: Sequence[str]) -> list[Tally]:
    found = await connections.fetch("telemetry/tallies", [*queues] or None)
    return [Tally(queue, task, STATES[state], jobs) for queue, task, state, jobs in found]
