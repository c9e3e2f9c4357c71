"""The books on Valkey.

The scripts that move jobs keep the counts by state themselves (`counts`), and note what moved the
jobs in the hash of the current minute. `fold` adds the minutes that are over to the totals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from holdfast.job.state import ENDED, JobState
from holdfast.job.what import What
from holdfast.store.contract.records import Tally, Total, Traffic
from holdfast.store.contract.telemetry import TRAFFIC_KEPT
from holdfast.store.valkey.connection import Connections, ValkeyVerbs
from holdfast.store.valkey.moments import to_datetime, to_micros
from holdfast.store.valkey.replies import paired
from holdfast.store.valkey.rows import STATES, line_name, split_count

MINUTE = 60_000_000
RECOUNT_BATCH = 1_000
LISTED = ("live", *(f"ended:{state}" for state in sorted(ENDED)))
"""The sets that together list every job once."""


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

    async def recount(self) -> list[Tally] | None:
        """Records are read a batch at a time. The difference is true if no job was moved between
        the first batch and the last."""
        before = sorted(await self.totals())
        found: Counter[tuple[str, str, JobState]] = Counter()
        for partition in self._connections.partitions:
            for name in LISTED:
                await self._count_records(partition, name, found)
        for tally in await self.tallies():
            found[tally.queue, tally.task, tally.state] -= tally.jobs
        if sorted(await self.totals()) != before:
            return None
        return [Tally(*place, jobs) for place, jobs in found.items() if jobs]

    async def _count_records(
        self, partition: int, name: str, found: Counter[tuple[str, str, JobState]]
    ) -> None:
        above = "-"
        while True:
            given = {"name": name, "above": above, "limit": RECOUNT_BATCH}
            last, *counted = await self._connections.call("telemetry/recount", partition, given)
            for field, jobs in paired(counted):
                state, queue, task = _state(field)
                found[queue, task, state] += int(jobs)
            if not last:
                return
            above = f"({last.decode()}"

    async def correct(self, missing: Sequence[Tally]) -> None:
        """A count is the sum over all partitions: the first one takes what is missing."""
        rows = [
            (f"{tally.state}:{line_name(tally.queue, tally.task)}", tally.jobs) for tally in missing
        ]
        if rows:
            given = {"rows": rows}
            await self._connections.call("telemetry/correct", 0, given, again=False)

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
