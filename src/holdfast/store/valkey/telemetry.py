"""The books on Valkey.

The scripts that move jobs keep the counts by state themselves (`counts`), and note what moved the
jobs in the hash of the current minute. `fold` adds the minutes that are over to the totals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.store.contract.records import Tally, Total, Traffic
from holdfast.store.contract.telemetry import TRAFFIC_KEPT
from holdfast.store.valkey.connection import Connections, ValkeyVerbs
from holdfast.store.valkey.moments import to_datetime, to_micros
from holdfast.store.valkey.replies import paired
from holdfast.store.valkey.rows import STATES, split_count

MINUTE = 60_000_000


class ValkeyTelemetry(ValkeyVerbs):
    """See `holdfast.store.contract.telemetry.Telemetry`."""

    async def tallies(self, queues: Sequence[str] = ()) -> list[Tally]:
        return await tallies(self._connections, queues)

    async def totals(self) -> list[Total]:
        sums: Counter[str] = Counter()
        for answer in await self._connections.everywhere("telemetry/totals"):
            sums.update(_numbers(answer))
        return [_total(field, jobs) for field, jobs in sums.items()]

    async def traffic(self, since: datetime, until: datetime) -> list[Traffic]:
        first, end = (-(-to_micros(moment) // MINUTE) for moment in (since, until))
        minutes: dict[int, Counter[str]] = {}
        span = {"first": first, "last": f"({end}"}
        for answer in await self._connections.everywhere("telemetry/traffic", **span):
            for minute, fields in zip(answer[::2], answer[1::2], strict=True):
                minutes.setdefault(int(minute), Counter()).update(_numbers(fields))
        return [
            _traffic(minute, field, jobs)
            for minute in sorted(minutes)
            for field, jobs in minutes[minute].items()
        ]

    async def fold(self, limit: int) -> int:
        given = {"limit": limit, "kept": TRAFFIC_KEPT}
        return sum(map(int, await self._connections.everywhere("telemetry/fold", **given)))


async def tallies(connections: Connections, queues: Sequence[str] = ()) -> list[Tally]:
    """The counts of all partitions together."""
    sums: Counter[tuple[str, str, JobState]] = Counter()
    for counted in await counts(connections):
        for (state, queue, task), jobs in counted.items():
            if not queues or queue in queues:
                sums[queue, task, state] += jobs
    return [Tally(*place, jobs) for place, jobs in sums.items() if jobs]


async def counts(connections: Connections) -> list[dict[tuple[JobState, str, str], int]]:
    """How many jobs there are by state, queue and task, in each partition."""
    reads = [("HGETALL", connections.key(p, "counts")) for p in connections.partitions]
    return [
        {_state(field): int(number) for field, number in paired(answer)}
        for answer in await connections.commands(reads)
    ]


def _state(field: str) -> tuple[JobState, str, str]:
    state, queue, task = split_count(field)
    return STATES[state], queue, task


def _numbers(reply: Sequence[bytes]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for field, number in paired(reply):
        sums[field] += int(number)
    return sums


def _total(field: str, jobs: int) -> Total:
    what, queue, task = split_count(field)
    return Total(queue, task, What(what), jobs)


def _traffic(minute: int, field: str, jobs: int) -> Traffic:
    what, queue, task = split_count(field)
    return Traffic(to_datetime(minute * MINUTE), queue, task, What(what), jobs)
