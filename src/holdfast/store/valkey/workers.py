"""`Workers` on Valkey: which workers are alive, which jobs they hold, and which worker leads.

Every partition keeps all leases, so that each script can check a lease by itself. The first
partition keeps the workers' rows, and decides whether a worker is known.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence

import msgspec

from holdfast.job.ids import JobId, WorkerId
from holdfast.store.contract.facts import NO_FACTS, WorkerFacts
from holdfast.store.contract.workers import (
    LATELY,
    MOST_COUNTED,
    Beat,
    Drain,
    Held,
    News,
    QueueTotal,
    WorkerInfo,
    counts_in,
    to_counts,
)
from holdfast.store.valkey.connection import ValkeyVerbs
from holdfast.store.valkey.layout import WorkerRow
from holdfast.store.valkey.moments import SECOND, finite, to_datetime, to_optional_datetime
from holdfast.store.valkey.replies import numbers_in, paired, scored
from holdfast.store.valkey.rows import to_worker_row

HOME = 0
"""The partition that keeps the workers' rows."""


class ValkeyWorkers(ValkeyVerbs):
    """See `holdfast.store.contract.workers.Workers`."""

    async def register(self, worker: WorkerInfo, lease: float) -> None:
        """The row is written last: a worker that is known has its lease in every partition."""
        given = {"worker": worker.id, "lease": finite(lease)}
        await self._elsewhere("workers/register", **given, row=None)
        row = WorkerRow(
            name=worker.name,
            host=worker.host,
            pid=worker.pid,
            queues=to_counts(worker.queues),
            tasks=msgspec.json.encode(worker.tasks).decode(),
            version=worker.version,
            started_at=False,
            beaten_at=False,
            lease=False,
            alive_since=False,
            written_until=False,
            facts=worker.facts.to_json(),
        )
        await self._connections.call("workers/register", HOME, {**given, "row": row})

    async def heartbeat(
        self,
        worker: WorkerId,
        lease: float,
        held: Sequence[Held],
        caught_up: bool = True,
        facts: WorkerFacts = NO_FACTS,
    ) -> Beat:
        mine: dict[int, list[tuple[str, int]]] = {p: [] for p in self._connections.partitions}
        for attempt in held:
            mine[self._connections.partition_of(attempt.id)].append((attempt.id, attempt.fence))
        given = {
            "worker": worker,
            "lease": finite(lease),
            "caught_up": "1" if caught_up else "",
            "facts": facts.to_json(),
        }
        first = await self._connections.call(
            "workers/heartbeat", HOME, {**given, "home": "1", "held": mine.pop(HOME)}
        )
        if not first[0]:
            self._connections.marks.require(HOME, first[4])
            return Beat(False, lost=tuple(attempt.id for attempt in held))
        calls = [
            ("workers/heartbeat", p, {**given, "home": "", "held": some})
            for p, some in mine.items()
        ]
        answers = [first, *(await self._connections.call_each(calls) if calls else ())]
        for partition, answer in zip((HOME, *mine), answers, strict=True):
            if answer[2]:  # jobs that are lost: a missing one may be on another server
                self._connections.marks.require(partition, answer[4])
        cancel = {JobId(one.decode()) for answer in answers for one in answer[1]}
        lost = {JobId(one.decode()) for answer in answers for one in answer[2]}
        return Beat(
            True,
            tuple(attempt.id for attempt in held if attempt.id in cancel),
            tuple(attempt.id for attempt in held if attempt.id in lost),
            (Drain(),) if first[3] else (),
        )

    async def poll(self, worker: WorkerId, queues: Sequence[str], tasks: Sequence[str]) -> News:
        given = {"worker": worker, "queues": list(queues), "tasks": list(tasks), "lately": LATELY}
        answers = await self._connections.everywhere("workers/poll", **given)
        waits = [int(wait) / SECOND for _, wait, *_ in answers if wait is not None]
        return News(
            ready=any(ready for ready, *_ in answers),
            due_in=min(waits, default=None),
            cancels=sum(cancels for _, _, cancels, *_ in answers),
            schedules=sum(schedules for _, _, _, schedules, *_ in answers),
            replicas=min(answers[HOME][4], MOST_COUNTED),
            operations=bool(answers[HOME][5]),
            lapsed=bool(answers[HOME][6]),
            errands=any(answer[7] for answer in answers),
        )

    async def fleet(self, queues: Collection[str]) -> list[QueueTotal]:
        given = {"queues": list(queues)}
        totals, workers = await self._connections.call("workers/fleet", HOME, given)
        return QueueTotal.gathered(
            ((queue.decode(), int(total)) for queue, total in totals),
            ((WorkerId(worker.decode()), serves.decode()) for worker, serves in workers),
        )

    async def request_drain(self, ids: Sequence[WorkerId]) -> list[WorkerId]:
        if not ids:
            return []
        given = {"chosen": list(dict.fromkeys(ids))}
        told = await self._connections.call("workers/request_drain", HOME, given)
        return [WorkerId(worker.decode()) for worker in told]

    async def deregister(self, worker: WorkerId, facts: WorkerFacts | None = None) -> None:
        given = {"worker": worker, "facts": "" if facts is None else facts.to_json()}
        await self._connections.call("workers/deregister", HOME, given)
        await self._elsewhere("workers/deregister", **given)

    async def counts(self) -> dict[str, int]:
        found = await self._connections.call("workers/counts", HOME, {})
        return {name: int(number) for name, number in paired(found)}

    async def find(self) -> list[WorkerInfo]:
        """Everything is asked at once, the time last."""
        connections = self._connections
        leases = ("ZRANGEBYSCORE", connections.key(HOME, "leases"), "-inf", "+inf", "WITHSCORES")
        rows, leased, held, now = await asyncio.gather(
            connections.command("HGETALL", connections.key(HOME, "workers")),
            connections.command(*leases),
            connections.everywhere("workers/running"),
            connections.now_micros(),
        )
        expires = dict(scored(leased))
        running: Counter[str] = Counter()
        for of_partition in held:
            running.update(numbers_in(of_partition))
        found = [
            _info(worker, to_worker_row(row), expires.get(worker, 0.0), now, running[worker])
            for worker, row in paired(rows)
        ]
        return sorted(found, key=lambda worker: (worker.started_at, worker.id))

    async def sweep(self, limit: int, lapsed_for: float) -> int:
        """Candidates are read first; the script checks each again before it removes it."""
        connections = self._connections
        await self._shorten()
        before = await connections.now_micros() - round(lapsed_for * SECOND)
        reads: list[tuple[str, ...]] = []
        for partition in connections.partitions:
            reads.append(("SMEMBERS", connections.key(partition, "holders")))
            leases = connections.key(partition, "leases")
            reads.append(("ZRANGEBYSCORE", leases, "-inf", f"({before}"))
        answers = await connections.commands(reads)
        busy = {worker for holders in answers[::2] for worker in holders}
        lapsed = dict.fromkeys(worker for leases in answers[1::2] for worker in leases)
        chosen = [worker.decode() for worker in lapsed if worker not in busy][:limit]
        if not chosen:
            return 0
        given = {"lapsed_for": lapsed_for, "chosen": chosen}
        swept = await connections.call("workers/sweep", HOME, given)
        await self._elsewhere(
            "workers/sweep", lapsed_for=lapsed_for, chosen=[s.decode() for s in swept]
        )
        return len(swept)

    async def _shorten(self) -> None:
        """Shorten leases that end later than their length from now: the clock was set back."""
        connections = self._connections
        now = await connections.now_micros()
        rows = paired(await connections.command("HGETALL", connections.key(HOME, "workers")))
        lengths = [(worker, to_worker_row(row).lease) for worker, row in rows]
        limits = [(worker, now + int(length)) for worker, length in lengths]
        if limits:
            await connections.everywhere("workers/shorten_leases", limits=limits)

    async def lead(self, role: str, worker: WorkerId, ttl: float) -> bool:
        given = {"role": role, "worker": worker, "ttl": finite(ttl)}
        return bool(await self._connections.call("workers/lead", HOME, given))

    async def stop_leading(self, role: str, worker: WorkerId) -> None:
        await self._connections.call("workers/stop_leading", HOME, {"role": role, "worker": worker})

    async def _elsewhere(self, verb: str, **given: object) -> None:
        calls = [(verb, p, given) for p in self._connections.partitions if p != HOME]
        if calls:
            await self._connections.call_each(calls)


_tasks = msgspec.json.Decoder(tuple[str, ...])


def _info(worker: str, row: WorkerRow, expires_at: float, now: int, running: int) -> WorkerInfo:
    return WorkerInfo(
        id=WorkerId(worker),
        name=row.name,
        host=row.host,
        pid=row.pid,
        queues=counts_in(row.queues),
        tasks=_tasks.decode(row.tasks),
        version=row.version,
        started_at=to_datetime(row.started_at),
        heartbeat_at=to_datetime(row.beaten_at),
        expires_in=(expires_at - now) / SECOND,
        running=running,
        facts=WorkerFacts.from_json(row.facts),
        drain_requested_at=to_optional_datetime(row.drain_requested_at),
        lease=row.lease / SECOND,
        alive_since=to_datetime(row.alive_since),
        read_at=to_datetime(now),
    )
