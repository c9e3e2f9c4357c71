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
from holdfast.store.contract.telemetry import TRAFFIC_KEPT, Tally, Total, Traffic
from holdfast.store.valkey.connection import Connections
from holdfast.store.valkey.measures import ValkeyMeasures, counted, first_minute
from holdfast.store.valkey.replies import numbers_in, paired
from holdfast.store.valkey.rows import STATES, line_name, split_count

Counts = dict[tuple[JobState, str, str], int]
"""Numbers of jobs by state, queue and task."""

RECOUNT_BATCH = 1_000
LISTED = ("live", *(f"ended:{state}" for state in sorted(ENDED)))
"""The sets that together list every job once."""


class ValkeyTelemetry(ValkeyMeasures):
    """See `holdfast.store.contract.telemetry.Telemetry`."""

    async def tallies(self, queues: Sequence[str] = ()) -> list[Tally]:
        return await tallies(self._connections, queues)

    async def totals(self) -> list[Total]:
        sums: Counter[str] = Counter()
        for answer in await self._connections.everywhere("telemetry/totals"):
            sums.update(numbers_in(answer))
        return [_total(field, jobs) for field, jobs in sums.items()]

    async def traffic(self, since: datetime, until: datetime) -> list[Traffic]:
        found = await counted(self._connections, first_minute(since), first_minute(until))
        return [Traffic(*one) for one in found]

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
        given = {"limit": limit, "kept": TRAFFIC_KEPT, "unrolled": await self.rolled()}
        return sum(map(int, await self._connections.everywhere("telemetry/fold", **given)))


async def tallies(connections: Connections, queues: Sequence[str] = ()) -> list[Tally]:
    """The counts of all partitions together."""
    sums: Counter[tuple[str, str, JobState]] = Counter()
    for of_partition in await counts(connections):
        for (state, queue, task), jobs in of_partition.items():
            if not queues or queue in queues:
                sums[queue, task, state] += jobs
    return [Tally(*place, jobs) for place, jobs in sums.items() if jobs]


async def counts(connections: Connections) -> list[Counts]:
    """How many jobs there are by state, queue and task, in each partition."""
    reads = [("HGETALL", connections.key(p, "counts")) for p in connections.partitions]
    return [
        {_state(field): int(number) for field, number in paired(answer)}
        for answer in await connections.commands(reads)
    ]


def _state(field: str) -> tuple[JobState, str, str]:
    state, queue, task = split_count(field)
    return STATES[state], queue, task


def _total(field: str, jobs: int) -> Total:
    what, queue, task = split_count(field)
    return Total(queue, task, What(what), jobs)
