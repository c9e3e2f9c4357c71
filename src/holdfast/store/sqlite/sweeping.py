"""What time does to jobs: reconcilers ask for it a bounded page at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.job.ids import JobId
from holdfast.job.record import Live
from holdfast.job.what import What
from holdfast.store.contract.records import Promoted
from holdfast.store.sqlite.places import in_places, make_ready
from holdfast.store.sqlite.reading import live, to_live
from holdfast.store.sqlite.rows import SECOND, seconds_until, to_json
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.settling import let_go_of_children
from holdfast.store.sqlite.steps import CHILDREN, STEPS, forget
from holdfast.store.sqlite.transaction import NOWHERE, Row, Transaction
from holdfast.store.sqlite.version import Remembered
from holdfast.store.sqlite.writer import Verbs, Writer


class SqliteSweeping(Verbs):
    def __init__(self, writer: Writer) -> None:
        super().__init__(writer)
        self._no_leases: Remembered[list[Live]] = Remembered()

    async def lapsed_leases(self, limit: int, after: str | None = None) -> list[Live]:
        return await self._writer.read(
            lambda tx: lapsed_leases(tx, limit, after, self._no_leases),
            if_unchanged=self._no_leases.recall,
        )

    async def overdue_attempts(
        self, limit: int, after: str | None = None, slack: float = 0.0
    ) -> list[Live]:
        return await self._writer.read(lambda tx: overdue_attempts(tx, limit, after, slack))

    async def past_deadline(self, limit: int, after: str | None = None) -> list[Live]:
        return await self._writer.write(lambda tx: past_deadline(tx, limit, after))

    async def lift_deadlines(self, ids: Sequence[JobId]) -> list[JobId]:
        return await self._writer.write(lambda tx: lift_deadlines(tx, ids)) if ids else []

    async def next_deadline_in(self) -> float | None:
        return await self._writer.read(next_deadline_in)

    async def promote_due(self, limit: int) -> Promoted:
        return await self._writer.write(lambda tx: promote_due(tx, limit))

    async def due(self, limit: int, after: str | None = None) -> list[JobId]:
        return await self._writer.read(lambda tx: due(tx, limit, after))

    async def promote(self, ids: Sequence[JobId]) -> int:
        return await self._writer.write(lambda tx: promote(tx, ids)) if ids else 0

    async def prune(self, limit: int) -> int:
        return await self._writer.write(lambda tx: prune(tx, limit))


def lapsed_leases(
    tx: Transaction, limit: int, after: str | None, no_leases: Remembered[list[Live]]
) -> list[Live]:
    """Every process asks for them every second, because nothing announces the death of a worker.
    That there is no lease at all is remembered, and the question then needs no transaction as
    long as nobody commits."""
    sql = steps("jobs/lapsed_leases")
    if tx.rows(sql["any"]) == [(0,)]:
        no_leases.keep([])
        return []
    return to_live(tx.rows(sql["lapsed"], (after or "", tx.now, limit)))


def overdue_attempts(tx: Transaction, limit: int, after: str | None, slack: float) -> list[Live]:
    values = {
        "now": tx.now,
        "after": after or "",
        "limit": limit,
        "slack": round(slack * SECOND),
    }
    return to_live(tx.rows(script("jobs/overdue_attempts"), values))


def past_deadline(tx: Transaction, limit: int, after: str | None) -> list[Live]:
    """Also drops the deadlines of ended jobs. Every end drops its own, so that only a program
    other than Holdfast, or a defect, can have left one."""
    sql = steps("jobs/past_deadline")
    tx.run(sql["drop ended"], (tx.now, limit))
    ids = [job_id for (job_id,) in tx.rows(sql["find"], (tx.now, after or "", limit))]
    return sorted(live(tx, ids), key=lambda job: job.id)


def lift_deadlines(tx: Transaction, ids: Iterable[JobId]) -> list[JobId]:
    rows = tx.rows(script("jobs/lift_deadlines"), (to_json(ids),))
    return [JobId(job_id) for (job_id,) in rows]


def next_deadline_in(tx: Transaction) -> float | None:
    [(deadline,)] = tx.rows(script("jobs/next_deadline_in"))
    return None if deadline is None else max(0.0, seconds_until(deadline, tx.now))


def promote_due(tx: Transaction, limit: int) -> Promoted:
    sql = steps("jobs/promote_due")
    jobs = in_places(row for _, *row in tx.rows(sql["due"], (tx.now, limit)))
    make_ready(tx, jobs, What.PROMOTED)
    queues = tuple(sorted({row.queue for _, row in jobs}))
    [(next_due,)] = tx.rows(sql["next"])
    wait = None if next_due is None else max(0.0, seconds_until(next_due, tx.now))
    return Promoted(len(jobs), queues, wait)


def due(tx: Transaction, limit: int, after: str | None) -> list[JobId]:
    rows = tx.rows(script("jobs/due"), (tx.now, after or "", limit))
    return [JobId(job_id) for (job_id,) in rows]


def promote(tx: Transaction, ids: Iterable[JobId]) -> int:
    rows = tx.rows(script("jobs/promote"), (tx.now, to_json(set(ids))))
    jobs = in_places(row for _, *row in rows)
    make_ready(tx, jobs, What.PROMOTED)
    return len(jobs)


def prune(tx: Transaction, limit: int) -> int:
    over = tx.rows(script("jobs/prune"), (tx.now, limit))
    remove(tx, over, What.PRUNED)
    return len(over)


def remove(tx: Transaction, ended: Sequence[Row], what: What) -> None:
    """Remove ended jobs with all that belongs to them. `ended` has the id of each job, its unique
    key or None, its ties, its queue, its task and its state."""
    sql = steps("parts/remove")
    ids = [(job_id,) for job_id, *_ in ended]
    for table in ("outcome", "happening", "progress", "deadline", "job"):
        tx.each(sql[table], ids)
    tx.each(sql["key"], [(key, job_id) for job_id, key, *_ in ended if key is not None])
    if with_steps := [job_id for job_id, _, ties, *_ in ended if ties & STEPS]:
        forget(tx, with_steps)
    if parents := [job_id for job_id, _, ties, *_ in ended if ties & CHILDREN]:
        let_go_of_children(tx, parents)
    for *_, queue, task, state in ended:
        tx.count(queue, task, state, NOWHERE, what)
