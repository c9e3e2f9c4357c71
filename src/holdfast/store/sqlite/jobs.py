"""`Jobs` on SQLite: each verb is one transaction handed to the writer's or reader's thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.job.ids import JobId, WorkerId
from holdfast.job.outcome import Transition
from holdfast.job.record import Claimed, Inserted, Job, Live, NewJob
from holdfast.job.state import JobState
from holdfast.store.contract.records import (
    JobFilter,
    Outcome,
    Page,
    ProgressReport,
    Promoted,
    Verdict,
    Want,
    WorkerInfo,
)
from holdfast.store.sqlite import borrowing, finishing, operating, reading, sweeping
from holdfast.store.sqlite.claiming import Claimer
from holdfast.store.sqlite.engine import Engine
from holdfast.store.sqlite.inserting import insert, is_little, reschedule
from holdfast.store.sqlite.rows import after
from holdfast.store.sqlite.transaction import Transaction

LITTLE = 64  # jobs whose claim or end takes less than a millisecond


class SqliteJobs:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._claimer = Claimer()
        self._expired = sweeping.LapsedLeases()

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        if not jobs:
            return []
        return await self._engine.write(lambda tx: insert(tx, jobs), little=is_little(jobs))

    async def insert_within(self, connection: object, jobs: Sequence[NewJob]) -> list[Inserted]:
        return await borrowing.insert_within(self._engine, connection, jobs)

    def insert_within_sync(self, connection: object, jobs: Sequence[NewJob]) -> list[Inserted]:
        return borrowing.insert_within_sync(self._engine, connection, jobs)

    async def claim(
        self, worker: WorkerId, wants: Sequence[Want], tasks: Sequence[str]
    ) -> list[Claimed]:
        if not wants or not tasks:
            return []
        return await self._engine.write(
            lambda tx: self._claimer.claim(tx, worker, wants, tasks),
            little=sum(want.limit for want in wants) <= LITTLE,
            known=lambda state: self._claimer.look(state, wants, tasks),
        )

    async def finish(self, transitions: Sequence[Transition]) -> list[Verdict]:
        return await self._move(finishing.finish, transitions)

    async def reclaim(
        self, transitions: Sequence[Transition], by: WorkerInfo | None = None
    ) -> list[Verdict]:
        return await self._move(lambda tx, some: finishing.reclaim(tx, some, by), transitions)

    async def _move(
        self,
        verb: Callable[[Transaction, Sequence[Transition]], list[Verdict]],
        transitions: Sequence[Transition],
    ) -> list[Verdict]:
        if not transitions:
            return []
        return await self._engine.write(
            lambda tx: verb(tx, transitions), little=len(transitions) <= LITTLE
        )

    async def lapsed_leases(self, limit: int, after: str | None = None) -> list[Live]:
        return await self._engine.read_unless(
            self._expired.look, lambda tx: self._expired.find(tx, limit, after)
        )

    async def overdue_attempts(
        self, limit: int, after: str | None = None, slack: float = 0.0
    ) -> list[Live]:
        return await self._engine.read(
            lambda tx: sweeping.overdue_attempts(tx, limit, after, slack)
        )

    async def past_deadline(self, limit: int, after: str | None = None) -> list[Live]:
        return await self._engine.write(lambda tx: sweeping.past_deadline(tx, limit, after))

    async def next_deadline_in(self) -> float | None:
        return await self._engine.read(sweeping.next_deadline_in)

    async def live(self, ids: Sequence[JobId]) -> list[Live]:
        return await self._engine.read(lambda tx: reading.live(tx, ids))

    async def promote_due(self, limit: int) -> Promoted:
        return await self._engine.write(lambda tx: sweeping.promote_due(tx, limit))

    async def due(self, limit: int, after: str | None = None) -> list[JobId]:
        return await self._engine.read(lambda tx: sweeping.due(tx, limit, after))

    async def promote(self, ids: Sequence[JobId]) -> int:
        return await self._engine.write(lambda tx: sweeping.promote(tx, ids)) if ids else 0

    async def resume(self, ids: Sequence[JobId]) -> list[JobId]:
        return await self._tend(lambda tx: operating.resume(tx, ids), ids)

    async def request_cancel(self, ids: Sequence[JobId]) -> list[JobId]:
        return await self._tend(lambda tx: operating.request_cancel(tx, ids), ids)

    async def requeue(self, ids: Sequence[JobId]) -> list[JobId]:
        return await self._tend(lambda tx: operating.requeue(tx, ids), ids)

    async def reschedule(self, ids: Sequence[JobId], delay: float) -> list[JobId]:
        return await self._tend(lambda tx: reschedule(tx, ids, after(tx.now, delay)), ids)

    async def reprioritise(self, ids: Sequence[JobId], priority: int) -> list[JobId]:
        return await self._tend(lambda tx: operating.reprioritise(tx, ids, priority), ids)

    async def move(self, ids: Sequence[JobId], queue: str) -> list[JobId]:
        return await self._tend(lambda tx: operating.move(tx, ids, queue), ids)

    async def delete(self, ids: Sequence[JobId]) -> list[JobId]:
        return await self._tend(lambda tx: sweeping.delete(tx, ids), ids)

    async def prune(self, limit: int) -> int:
        return await self._engine.write(lambda tx: sweeping.prune(tx, limit))

    async def report_progress(self, reports: Sequence[ProgressReport]) -> list[bool]:
        if not reports:
            return []
        return await self._engine.write(lambda tx: operating.report_progress(tx, reports))

    async def get(self, ids: Sequence[JobId]) -> list[Job]:
        return await self._engine.read(lambda tx: reading.get(tx, ids))

    async def ahead(self, job_id: JobId) -> int:
        return await self._engine.read(lambda tx: reading.ahead(tx, job_id))

    async def outcomes(self, ids: Sequence[JobId]) -> list[Outcome]:
        return await self._engine.read(lambda tx: reading.outcomes(tx, ids))

    async def page(self, which: JobFilter, limit: int, cursor: str | None = None) -> Page:
        return await self._engine.read(lambda tx: reading.page(tx, which, limit, cursor))

    async def count(self, which: JobFilter) -> dict[JobState, int]:
        return await self._engine.read(lambda tx: reading.count(tx, which))

    async def _tend(
        self, verb: Callable[[Transaction], list[JobId]], ids: Sequence[JobId]
    ) -> list[JobId]:
        return await self._engine.write(verb) if ids else []
