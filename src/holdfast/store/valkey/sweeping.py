"""What reconcilers ask: the jobs that time has caught up with, a bounded page at a time.

The sets by time say who is late; a page is by id, so that a sweep can go on after its last one.
Usually few are late and one read finds them all. Where thousands are, they are read on in bites
until the lowest ids after the cursor are known: no late job is hidden by others before it.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Sequence

from holdfast.job.ids import JobId
from holdfast.job.record import Live
from holdfast.job.state import JobState
from holdfast.store.contract.records import Promoted
from holdfast.store.valkey.connection import Connections
from holdfast.store.valkey.moments import SECOND
from holdfast.store.valkey.reading import live
from holdfast.store.valkey.replies import paired, scored
from holdfast.store.valkey.rows import to_worker_row
from holdfast.store.valkey.workers import HOME

BITE = 5_000


async def lapsed_leases(connections: Connections, limit: int, after: str | None) -> list[Live]:
    """The workers who hold jobs without a trusted lease, and then what they hold."""
    start = "-" if after is None else f"({after}"
    holders = [
        (partition, worker)
        for partition, workers in enumerate(await _lapsed_holders(connections))
        for worker in workers
    ]
    reads = [
        ("ZRANGEBYLEX", connections.key(p, f"held:{worker}"), start, "+", "LIMIT", 0, limit)
        for p, worker in holders
    ]
    found = {
        job_id.decode(): holder
        for holder, ids in zip(holders, await connections.commands(reads), strict=True)
        for job_id in ids
    }
    chosen = heapq.nsmallest(limit, found)
    held = await live(connections, chosen)
    lost = set(chosen) - {job.id for job in held}
    await _set_aside(connections, {job_id: found[job_id] for job_id in sorted(lost)})
    return [job for job in _by_id(held) if job.state is JobState.RUNNING]


async def _set_aside(connections: Connections, lost: dict[str, tuple[int, str]]) -> None:
    """Jobs that a worker holds and that cannot be read; one that has ended since is not meant."""
    by_holder: dict[tuple[int, str], list[str]] = {}
    for job_id, holder in lost.items():
        by_holder.setdefault(holder, []).append(job_id)
    calls = [
        ("jobs/set_aside", partition, {"worker": worker, "unread": "", "chosen": ids})
        for (partition, worker), ids in by_holder.items()
    ]
    if calls:
        await connections.call_each(calls)


async def _lapsed_holders(connections: Connections) -> list[list[str]]:
    answers = await connections.everywhere("jobs/lapsed_holders")
    return [[worker.decode() for worker in workers] for workers in answers]


async def overdue_attempts(
    connections: Connections, limit: int, after: str | None, slack: float
) -> list[Live]:
    pages = _late_jobs(connections, "timeouts", limit, after, edge="(", slack=slack)
    return await _first(limit, (job async for job in pages if job.state is JobState.RUNNING))


async def past_deadline(connections: Connections, limit: int, after: str | None) -> list[Live]:
    return await _first(limit, _late_jobs(connections, "deadlines", limit, after))


async def _first(limit: int, jobs: AsyncIterator[Live]) -> list[Live]:
    found: list[Live] = []
    async for job in jobs:
        found.append(job)
        if len(found) == limit:
            break
    return found


async def _late_jobs(
    connections: Connections,
    name: str,
    limit: int,
    after: str | None,
    *,
    edge: str = "",
    slack: float = 0.0,
) -> AsyncIterator[Live]:
    """Late jobs by id, but for running ones whose worker may still have an end to write that was
    decided in time. An end drops its own entry; one dropped here was left by hand or a bug."""
    written: dict[str, int] | None = None
    while ids := await _late(connections, name, limit, after, edge=edge, slack=slack):
        found = {job.id: job for job in await live(connections, [job_id for job_id, _ in ids])}
        await _drop_deadlines(connections, [job_id for job_id, _ in ids if job_id not in found])
        for job_id, at in ids:
            job = found.get(JobId(job_id))
            if job is not None and job.worker_id is not None and written is None:
                written = await _written_until(connections)
            if job is not None and _may_end(job, at + slack * SECOND, written or {}):
                yield job
        if len(ids) < limit:
            return
        after = ids[-1][0]


def _may_end(job: Live, limit: float, written: dict[str, int]) -> bool:
    return job.worker_id not in written or limit < written[job.worker_id]


async def _written_until(connections: Connections) -> dict[str, int]:
    rows = await connections.command("HGETALL", connections.key(HOME, "workers"))
    return {worker: to_worker_row(row).written_until for worker, row in paired(rows)}


async def _drop_deadlines(connections: Connections, gone: list[str]) -> None:
    calls = [
        ("jobs/drop_deadlines", partition, {"chosen": mine})
        for partition, mine in connections.by_partition(gone).items()
    ]
    if calls:
        await connections.call_each(calls)


async def _late(
    connections: Connections,
    name: str,
    limit: int,
    after: str | None,
    *,
    edge: str = "",
    slack: float = 0.0,
) -> list[tuple[str, float]]:
    """The lowest ids after the cursor among the members whose time has come, with that time."""
    found: list[tuple[str, float]] = []
    for partition in connections.partitions:
        given, offset = {"name": name, "edge": edge, "slack": slack, "bite": BITE}, 0
        while True:
            answer = await connections.call("jobs/late", partition, {**given, "offset": offset})
            late = scored(answer)
            found = heapq.nsmallest(
                limit, [*found, *(one for one in late if one[0] > (after or ""))]
            )
            offset += len(late)
            if len(late) < BITE:
                break
    return found


async def next_deadline_in(connections: Connections) -> float | None:
    return await _soonest(connections, "deadlines")


async def _soonest(connections: Connections, name: str) -> float | None:
    answers = await connections.everywhere("jobs/soonest", name=name)
    waits = [int(answer) for answer in answers if answer is not None]
    return max(0.0, min(waits) / SECOND) if waits else None


async def promote_due(connections: Connections, limit: int) -> Promoted:
    if connections.options.partitions == 1:
        given = {"arrival": "", "limit": limit, "chosen": []}
        count, wait, served = await connections.call("jobs/promote_due", 0, given)
        due_in = None if wait is None else max(0.0, int(wait) / SECOND)
        return Promoted(count, tuple(sorted(queue.decode() for queue in served)), due_in)
    calls = await _chosen_due(connections, limit)
    count, queues = 0, set()
    for promoted, _, served in await connections.call_each(calls) if calls else ():
        count += promoted
        queues |= {queue.decode() for queue in served}
    return Promoted(count, tuple(sorted(queues)), await _soonest(connections, "due"))


async def due(connections: Connections, limit: int, after: str | None) -> list[JobId]:
    return [JobId(job_id) for job_id, _ in await _late(connections, "due", limit, after)]


async def promote(connections: Connections, ids: Sequence[JobId]) -> int:
    calls = await _numbered(connections, list(dict.fromkeys(ids)))
    return sum([count for count, *_ in await connections.call_each(calls)]) if calls else 0


async def _chosen_due(
    connections: Connections, limit: int
) -> list[tuple[str, int, dict[str, object]]]:
    """The earliest of all partitions, numbered in that order."""
    until = await connections.now_micros()
    found: list[tuple[float, str]] = []
    for partition in connections.partitions:
        key = connections.key(partition, "due")
        read = ("ZRANGEBYSCORE", key, "-inf", until, "WITHSCORES", "LIMIT", 0, limit)
        found += [(score, job_id) for job_id, score in scored(await connections.command(*read))]
    return await _numbered(connections, [job_id for _, job_id in sorted(found)[:limit]])


async def _numbered(
    connections: Connections, ids: Sequence[str]
) -> list[tuple[str, int, dict[str, object]]]:
    """A promotion of each partition's part of these jobs, which arrive in this order."""
    mine: dict[int, list[tuple[str, int]]] = {}
    for index, job_id in enumerate(ids):
        mine.setdefault(connections.partition_of(job_id), []).append((job_id, index))
    base = await connections.arrivals(1) if mine else ""
    return [
        ("jobs/promote_due", partition, {"arrival": base, "limit": len(ids), "chosen": chosen})
        for partition, chosen in mine.items()
    ]


async def prune(connections: Connections, limit: int) -> int:
    """Partitions take turns until so many are removed."""
    removed = 0
    for partition in connections.partitions:
        while removed < limit:
            bite = min(limit - removed, 1_000)
            some = int(await connections.call("jobs/prune", partition, {"limit": bite}))
            removed += some
            if some < bite:
                break
    return removed


def _by_id(jobs: Sequence[Live]) -> list[Live]:
    return sorted(jobs, key=lambda job: job.id)
