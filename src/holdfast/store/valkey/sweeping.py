"""The jobs that time has caught up with, for reconcilers, a bounded page at a time.

Sorted sets by time say which jobs are late. A page is ordered by id, so that a sweep can go on
after the last job of its page. Usually few jobs are late and one read finds them all. Where
thousands are, they are read batch by batch until the lowest ids behind the cursor are known: no
late job is hidden by others before it.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Sequence

from holdfast.job.ids import JobId
from holdfast.job.record import Live
from holdfast.job.state import JobState
from holdfast.store.contract.records import Promoted
from holdfast.store.valkey.connection import Call, ValkeyVerbs
from holdfast.store.valkey.moments import SECOND
from holdfast.store.valkey.reading import live_jobs
from holdfast.store.valkey.replies import ids_of, paired, scored
from holdfast.store.valkey.rows import to_worker_row
from holdfast.store.valkey.workers import HOME

LATE_BATCH = 5_000
PRUNE_BATCH = 1_000


class ValkeySweeping(ValkeyVerbs):
    """See `holdfast.store.contract.sweeping.Sweeping`."""

    async def lapsed_leases(self, limit: int, after: str | None = None) -> list[Live]:
        """First the workers that hold jobs without a trusted lease, then the jobs they hold."""
        start = "-" if after is None else f"({after}"
        holders = await self._lapsed_holders()
        reads = [
            (
                "ZRANGEBYLEX",
                self._connections.key(partition, f"held:{worker}"),
                *(start, "+", "LIMIT", 0, limit),
            )
            for partition, worker in holders
        ]
        found = {
            job_id.decode(): holder
            for holder, ids in zip(holders, await self._connections.commands(reads), strict=True)
            for job_id in ids
        }
        chosen = heapq.nsmallest(limit, found)
        held = await live_jobs(self._connections, chosen)
        unread = set(chosen) - {job.id for job in held}
        await self._set_aside({job_id: found[job_id] for job_id in sorted(unread)})
        return [
            job for job in sorted(held, key=lambda job: job.id) if job.state is JobState.RUNNING
        ]

    async def overdue_attempts(
        self, limit: int, after: str | None = None, slack: float = 0.0
    ) -> list[Live]:
        late = self._late_jobs("timeouts", limit, after, edge="(", slack=slack)
        return await _first(limit, (job async for job in late if job.state is JobState.RUNNING))

    async def past_deadline(self, limit: int, after: str | None = None) -> list[Live]:
        return await _first(limit, self._late_jobs("deadlines", limit, after))

    async def lift_deadlines(self, ids: Sequence[JobId]) -> list[JobId]:
        by_partition = self._connections.by_partition(list(dict.fromkeys(ids))).items()
        calls: list[Call] = [
            ("jobs/lift_deadlines", p, {"chosen": mine}) for p, mine in by_partition
        ]
        answers = await self._connections.call_each(calls) if calls else []
        return [job_id for answer in answers for job_id in ids_of(answer)]

    async def next_deadline_in(self) -> float | None:
        return await self._soonest("deadlines")

    async def promote_due(self, limit: int) -> Promoted:
        if self._connections.options.partitions == 1:
            given = {"arrival": "", "limit": limit, "chosen": []}
            count, wait, served = await self._connections.call("jobs/promote_due", 0, given)
            due_in = None if wait is None else max(0.0, int(wait) / SECOND)
            return Promoted(count, tuple(sorted(queue.decode() for queue in served)), due_in)
        count, queues = 0, set()
        calls = await self._promotions(await self._earliest_due(limit))
        for promoted, _, served in await self._connections.call_each(calls) if calls else ():
            count += promoted
            queues |= {queue.decode() for queue in served}
        return Promoted(count, tuple(sorted(queues)), await self._soonest("due"))

    async def due(self, limit: int, after: str | None = None) -> list[JobId]:
        return [JobId(job_id) for job_id, _ in await self._late("due", limit, after)]

    async def promote(self, ids: Sequence[JobId]) -> int:
        calls = await self._promotions(list(dict.fromkeys(ids)))
        answers = await self._connections.call_each(calls) if calls else []
        return sum(count for count, *_ in answers)

    async def prune(self, limit: int) -> int:
        """The partitions take turns until so many jobs are removed."""
        removed = 0
        for partition in self._connections.partitions:
            while removed < limit:
                size = min(limit - removed, PRUNE_BATCH)
                gone = int(await self._connections.call("jobs/prune", partition, {"limit": size}))
                removed += gone
                if gone < size:
                    break
        return removed

    # Lapsed leases

    async def _lapsed_holders(self) -> list[tuple[int, str]]:
        """Partition and worker."""
        answers = await self._connections.everywhere("jobs/lapsed_holders")
        return [
            (partition, worker.decode())
            for partition, workers in enumerate(answers)
            for worker in workers
        ]

    async def _set_aside(self, unread: dict[str, tuple[int, str]]) -> None:
        """Put aside the jobs of these holders that cannot be read. The script leaves a job alone
        that has ended since."""
        by_holder: dict[tuple[int, str], list[str]] = {}
        for job_id, holder in unread.items():
            by_holder.setdefault(holder, []).append(job_id)
        calls: list[Call] = [
            ("jobs/set_aside", partition, {"worker": worker, "unread": "", "chosen": ids})
            for (partition, worker), ids in by_holder.items()
        ]
        if calls:
            await self._connections.call_each(calls)

    # Timeouts and deadlines

    async def _late_jobs(
        self, name: str, limit: int, after: str | None, *, edge: str = "", slack: float = 0.0
    ) -> AsyncIterator[Live]:
        """Late jobs by id. A running job is left out while its worker may still have an end to
        write that it decided in time. The end of a job removes its entry, so an entry of an ended
        job was left by hand or by a bug, and is dropped."""
        written: dict[str, float] | None = None
        while late := await self._late(name, limit, after, edge=edge, slack=slack):
            jobs = await live_jobs(self._connections, [job_id for job_id, _ in late])
            found = {job.id: job for job in jobs}
            await self._drop_deadlines([job_id for job_id, _ in late if job_id not in found])
            for job_id, at in late:
                job = found.get(JobId(job_id))
                if job is not None and job.worker_id is not None and written is None:
                    written = await self._written_until()
                if job is not None and _may_end(job, at + slack * SECOND, written or {}):
                    yield job
            if len(late) < limit:
                return
            after = late[-1][0]

    async def _late(
        self, name: str, limit: int, after: str | None, *, edge: str = "", slack: float = 0.0
    ) -> list[tuple[str, float]]:
        """The lowest ids behind the cursor among the members whose time has come, each with its
        time."""
        found: list[tuple[str, float]] = []
        given = {"name": name, "edge": edge, "slack": slack, "limit": LATE_BATCH}
        for partition in self._connections.partitions:
            offset = 0
            while True:
                answer = await self._connections.call(
                    "jobs/late", partition, {**given, "offset": offset}
                )
                late = scored(answer)
                found = heapq.nsmallest(
                    limit, [*found, *(one for one in late if one[0] > (after or ""))]
                )
                offset += len(late)
                if len(late) < LATE_BATCH:
                    break
        return found

    async def _written_until(self) -> dict[str, float]:
        """Up to when each worker has written all its ends."""
        rows = await self._connections.command("HGETALL", self._connections.key(HOME, "workers"))
        return {worker: to_worker_row(row).written_until for worker, row in paired(rows)}

    async def _drop_deadlines(self, gone: list[str]) -> None:
        calls: list[Call] = [
            ("jobs/drop_deadlines", partition, {"chosen": mine})
            for partition, mine in self._connections.by_partition(gone).items()
        ]
        if calls:
            await self._connections.call_each(calls)

    async def _soonest(self, name: str) -> float | None:
        answers = await self._connections.everywhere("jobs/soonest", name=name)
        waits = [int(answer) for answer in answers if answer is not None]
        return max(0.0, min(waits) / SECOND) if waits else None

    # Promotion

    async def _earliest_due(self, limit: int) -> list[str]:
        """The ids of the jobs of all partitions that are due, earliest first."""
        until = await self._connections.now_micros()
        found: list[tuple[float, str]] = []
        for partition in self._connections.partitions:
            key = self._connections.key(partition, "due")
            read = ("ZRANGEBYSCORE", key, "-inf", until, "WITHSCORES", "LIMIT", 0, limit)
            members = scored(await self._connections.command(*read))
            found += [(score, job_id) for job_id, score in members]
        return [job_id for _, job_id in sorted(found)[:limit]]

    async def _promotions(self, ids: Sequence[str]) -> list[Call]:
        """One call for each partition's part of these jobs, which arrive in this order."""
        mine: dict[int, list[tuple[str, int]]] = {}
        for index, job_id in enumerate(ids):
            mine.setdefault(self._connections.partition_of(job_id), []).append((job_id, index))
        base = await self._connections.arrivals(1) if mine else ""
        return [
            ("jobs/promote_due", partition, {"arrival": base, "limit": len(ids), "chosen": chosen})
            for partition, chosen in mine.items()
        ]


async def _first(limit: int, jobs: AsyncIterator[Live]) -> list[Live]:
    found: list[Live] = []
    async for job in jobs:
        found.append(job)
        if len(found) == limit:
            break
    return found


def _may_end(job: Live, limit: float, written: dict[str, float]) -> bool:
    return job.worker_id not in written or limit < written[job.worker_id]
