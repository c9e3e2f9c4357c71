"""`Workers` on SQLite: who is alive, what they hold, and who leads."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.job.ids import JobId, WorkerId
from holdfast.store.contract.facts import NO_FACTS, WorkerFacts
from holdfast.store.contract.wakeups import Topic
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
from holdfast.store.sqlite.rows import (
    SECOND,
    after,
    seconds_until,
    to_datetime,
    to_json,
    to_optional_datetime,
    to_texts,
)
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import Row, Transaction, Values
from holdfast.store.sqlite.version import Remembered, Version
from holdfast.store.sqlite.writer import Verbs, Writer


class SqliteWorkers(Verbs):
    def __init__(self, writer: Writer) -> None:
        super().__init__(writer)
        self._polled: Remembered[Row] = Remembered()

    async def register(self, worker: WorkerInfo, lease: float) -> None:
        await self._writer.write(lambda tx: _register(tx, worker, lease))

    async def heartbeat(
        self,
        worker: WorkerId,
        lease: float,
        held: Sequence[Held],
        caught_up: bool = True,
        facts: WorkerFacts = NO_FACTS,
    ) -> Beat:
        def work(tx: Transaction) -> Beat:
            values = {
                "worker": worker,
                "now": tx.now,
                "expires_at": after(tx.now, lease),
                "caught_up": caught_up,
                "facts": facts.to_json(),
            }
            return _heartbeat(tx, worker, values, held)

        return await self._writer.write(work)

    async def poll(self, worker: WorkerId, queues: Sequence[str], tasks: Sequence[str]) -> News:
        asked = (worker, tuple(queues))

        def known(version: Version) -> News | None:
            found = self._polled.recall(version, asked)
            return None if found is None else _recalled(found, self._writer.now())

        def work(tx: Transaction) -> News:
            found = _poll(tx, worker, queues)
            self._polled.keep(found, asked)
            return _news(found, tx.now)

        return await self._writer.read(work, if_unchanged=known)

    async def fleet(self, queues: Collection[str]) -> list[QueueTotal]:
        return await self._writer.read(lambda tx: _fleet(tx, queues))

    async def request_drain(self, ids: Sequence[WorkerId]) -> list[WorkerId]:
        return await self._writer.write(lambda tx: _request_drain(tx, ids)) if ids else []

    async def deregister(self, worker: WorkerId, facts: WorkerFacts | None = None) -> None:
        def work(tx: Transaction) -> None:
            _keep_counts(tx, [worker], facts)
            tx.run(script("workers/deregister"), (worker,))
            tx.run(steps("parts/counter")["forget worker"], (worker,))
            tx.wake(Topic.FLEET)

        await self._writer.write(work)

    async def counts(self) -> dict[str, int]:
        return await self._writer.read(lambda tx: dict(tx.rows(script("workers/counts"))))

    async def find(self) -> list[WorkerInfo]:
        return await self._writer.read(_list)

    async def sweep(self, limit: int, lapsed_for: float) -> int:
        return await self._writer.write(lambda tx: _sweep(tx, limit, lapsed_for))

    async def lead(self, role: str, worker: WorkerId, ttl: float) -> bool:
        def work(tx: Transaction) -> bool:
            values = (role, worker, after(tx.now, ttl), tx.now)
            return bool(tx.rows(script("workers/lead"), values))

        return await self._writer.write(work)

    async def stop_leading(self, role: str, worker: WorkerId) -> None:
        def work(tx: Transaction) -> None:
            if tx.rows(script("workers/stop_leading"), (role, worker)):
                tx.wake(Topic.LEAD, role)

        await self._writer.write(work)


def _poll(tx: Transaction, worker: WorkerId, queues: Sequence[str]) -> Row:
    wanted = {
        "queues": to_json(queues),
        "worker": worker,
        "since": tx.now - round(LATELY * SECOND),
        "now": tx.now,
        "most": MOST_COUNTED,
    }
    [found] = tx.rows(script("workers/poll"), wanted)
    return found


def _recalled(found: Row, now: int) -> News | None:
    """News from what a former poll found. A worker whose lease has lapsed since is still counted.
    None if the due time has passed `LATELY`: then the next due time has to be read."""
    news = _news(found, now)
    return None if news.due_in is not None and news.due_in <= -LATELY else news


def _news(found: Row, now: int) -> News:
    ready, due, cancels, schedules, replicas, operations, first_lapse, errands = found
    due_in = None if due is None else seconds_until(due, now)
    lapsed = first_lapse is not None and first_lapse <= now
    running, owed = bool(operations), bool(errands)
    return News(bool(ready), due_in, cancels, schedules, replicas, running, lapsed, owed)


def _register(tx: Transaction, worker: WorkerInfo, lease: float) -> None:
    tx.run(
        script("workers/register"),
        {
            "id": worker.id,
            "name": worker.name,
            "host": worker.host,
            "pid": worker.pid,
            "queues": to_counts(worker.queues),
            "tasks": to_json(worker.tasks),
            "version": worker.version,
            "now": tx.now,
            "expires_at": after(tx.now, lease),
            "facts": worker.facts.to_json(),
        },
    )
    tx.wake(Topic.FLEET)


def _heartbeat(tx: Transaction, worker: WorkerId, values: Values, held: Sequence[Held]) -> Beat:
    sql = steps("workers/heartbeat")
    found = tx.rows(sql["beat"], values)
    if not found:
        return Beat(False, lost=tuple(attempt.id for attempt in held))
    orders = () if found[0][0] is None else (Drain(),)
    rows = tx.rows(sql["held"], (to_json(attempt.id for attempt in held),)) if held else []
    ours = {(job_id, fence): cancel for job_id, fence, owner, cancel in rows if owner == worker}
    cancel: list[JobId] = []
    lost: list[JobId] = []
    for attempt in held:
        asked = ours.get((attempt.id, attempt.fence))
        if asked is None:
            lost.append(attempt.id)
        elif asked:
            cancel.append(attempt.id)
    return Beat(True, tuple(cancel), tuple(lost), orders)


def _fleet(tx: Transaction, queues: Collection[str]) -> list[QueueTotal]:
    sql = steps("workers/fleet")
    totals = tx.rows(sql["totals"], (to_json(queues),))
    return QueueTotal.gathered(totals, tx.rows(sql["workers"], (tx.now,)) if totals else ())


def _request_drain(tx: Transaction, ids: Sequence[WorkerId]) -> list[WorkerId]:
    values = {"ids": to_json(ids), "now": tx.now}
    told = [WorkerId(worker) for (worker,) in tx.rows(script("workers/request_drain"), values)]
    for worker in told:
        tx.wake(Topic.CANCEL, worker)
    if told:
        tx.wake(Topic.FLEET)
    return told


def _keep_counts(
    tx: Transaction, workers: Sequence[WorkerId], facts: WorkerFacts | None = None
) -> None:
    """Before the workers are removed."""
    last = None if facts is None else facts.to_json()
    tx.run(script("parts/keep_counts"), {"workers": to_json(workers), "facts": last})


def _list(tx: Transaction) -> list[WorkerInfo]:
    return [
        WorkerInfo(
            id=WorkerId(worker_id),
            name=name,
            host=host,
            pid=pid,
            queues=counts_in(queues),
            tasks=to_texts(tasks),
            version=version,
            started_at=to_datetime(started_at),
            heartbeat_at=to_datetime(heartbeat_at),
            expires_in=seconds_until(expires_at, tx.now),
            running=running,
            facts=WorkerFacts.from_json(facts),
            drain_requested_at=to_optional_datetime(drain_requested_at),
            lease=lease / SECOND,
            alive_since=to_datetime(alive_since),
            read_at=to_datetime(tx.now),
        )
        for (
            worker_id, name, host, pid, queues, tasks, version,
            started_at, heartbeat_at, expires_at, running, lease, alive_since, facts,
            drain_requested_at,
        ) in tx.rows(script("workers/find"))
    ]  # fmt: skip


def _sweep(tx: Transaction, limit: int, lapsed_for: float) -> int:
    sql = steps("workers/sweep")
    tx.run(sql["shorten"], {"now": tx.now})
    before = tx.now - round(lapsed_for * SECOND)
    lapsed = tx.rows(sql["find"], (before, limit))
    if lapsed:
        _keep_counts(tx, [worker for (worker,) in lapsed])
        tx.each(script("workers/deregister"), lapsed)
        tx.each(steps("parts/counter")["forget worker"], lapsed)
    return len(lapsed)
