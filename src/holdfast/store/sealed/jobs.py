"""The verbs on jobs that carry texts of users; all others are those of the store behind."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeVar

from holdfast.errors import PartlyInserted
from holdfast.job.happening import Happening
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.record import Claimed, Inserted, Job, NewJob
from holdfast.job.state import JobState
from holdfast.job.transition import Transition
from holdfast.store.contract.audit import Audit
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.jobs import Jobs
from holdfast.store.contract.joining import JobsWithin, Work
from holdfast.store.contract.reading import USUAL_BOUND, WalkBound
from holdfast.store.contract.records import Outcome, Page, ProgressReport, Room, Verdict, Want
from holdfast.store.contract.workers import WorkerInfo
from holdfast.store.sealed.audit import SealedAudit
from holdfast.store.sealed.records import Records
from holdfast.store.sealed.searching import Search

T = TypeVar("T")


class SealedWithin:
    """The verbs on jobs by their ids, as they run in the caller's transaction or on their own."""

    def __init__(self, within: JobsWithin, records: Records) -> None:
        self._within = within
        self._records = records
        self.live = within.live
        self.resume = within.resume
        self.request_cancel = within.request_cancel
        self.requeue = within.requeue
        self.reschedule = within.reschedule
        self.reprioritise = within.reprioritise
        self.move = within.move
        self.delete = within.delete

    @property
    def audit(self) -> Audit:
        return SealedAudit(self._within.audit, self._records.sealing)

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        try:
            answers = await self._within.insert([self._records.new_job(job) for job in jobs])
        except PartlyInserted as error:
            raise PartlyInserted(await self._same(jobs, error.answers), error.reason) from error
        return await self._same(jobs, answers)

    async def _same(self, jobs: Sequence[NewJob], answers: Sequence[Any]) -> list[Any]:
        """A store compares the arguments of a call that is repeated, and no two encryptions of the
        same arguments are equal. So the arguments are compared here."""
        taken = {one.id for one in answers if one is not None and one.how == "taken"}
        if not taken:
            return list(answers)
        there = {job.id: job for job in await self.get(sorted(taken))}
        return [
            job.repeats(there[job.id].task, there[job.id].args_json) if job.id in there else answer
            for job, answer in zip(jobs, answers, strict=True)
        ]

    async def finish(self, transitions: Sequence[Transition]) -> list[Verdict]:
        return await self._within.finish([self._records.transition(move) for move in transitions])

    async def reclaim(
        self, transitions: Sequence[Transition], by: WorkerInfo | None = None
    ) -> list[Verdict]:
        moves = [self._records.transition(move) for move in transitions]
        return await self._within.reclaim(moves, by)

    async def edit(
        self,
        ids: Sequence[JobId],
        args: str | None = None,
        tags: Sequence[str] | None = None,
        by: str | None = None,
    ) -> list[JobId]:
        """Each job has a key of its own, so jobs that get new arguments are edited one by one."""
        if args is None:
            return await self._within.edit(ids, None, tags, by)
        edited: list[JobId] = []
        for job in await self._within.get(ids):
            hidden = self._records.edited(job, args)
            edited += await self._within.edit([job.id], hidden, tags, by)
        return edited

    async def get(self, ids: Sequence[JobId]) -> list[Job]:
        return [self._records.job(job) for job in await self._within.get(ids)]

    async def life(self, ids: Sequence[JobId]) -> list[Happening]:
        return [self._records.happening(one) for one in await self._within.life(ids)]

    async def outcomes(self, ids: Sequence[JobId]) -> list[Outcome]:
        return [self._records.outcome(one) for one in await self._within.outcomes(ids)]


class SealedJobs(SealedWithin):
    """All verbs on jobs."""

    def __init__(self, jobs: Jobs, records: Records) -> None:
        super().__init__(jobs, records)
        self._jobs = jobs
        self.lapsed_leases = jobs.lapsed_leases
        self.overdue_attempts = jobs.overdue_attempts
        self.past_deadline = jobs.past_deadline
        self.lift_deadlines = jobs.lift_deadlines
        self.next_deadline_in = jobs.next_deadline_in
        self.promote_due = jobs.promote_due
        self.due = jobs.due
        self.promote = jobs.promote
        self.prune = jobs.prune
        self.ahead = jobs.ahead
        self.report_spend = jobs.report_spend

    async def claim(
        self,
        worker: WorkerId,
        wants: Sequence[Want],
        tasks: Sequence[str],
        labels: Collection[str] = (),
        only: Collection[str] = (),
    ) -> list[Claimed]:
        return await self._opened(await self._jobs.claim(worker, wants, tasks, labels, only))

    async def hand_over(self, end: Transition, room: Room) -> tuple[Verdict, Claimed | None]:
        verdict, brought = await self._jobs.hand_over(self._records.transition(end), room)
        if brought is not None:
            [brought] = await self._opened([brought])
        return verdict, brought

    async def _opened(self, claimed: Sequence[Claimed]) -> list[Claimed]:
        records = self._records
        held = [job.id for job in claimed if records.is_held(job)]
        keys = {job.id: job.unique_key for job in await self._jobs.get(held)} if held else {}
        return [records.claimed(job, keys.get(job.id)) for job in claimed]

    async def report_progress(self, reports: Sequence[ProgressReport]) -> list[bool]:
        return await self._jobs.report_progress([self._records.report(one) for one in reports])

    async def page(
        self, which: JobFilter, limit: int, cursor: str | None = None, look: WalkBound = USUAL_BOUND
    ) -> Page:
        search = Search.of(which, self._records)
        if search is not None:
            return await search.page(self._jobs, limit, cursor, look)
        found = await self._jobs.page(which, limit, cursor, look)
        return self._records.page(found)

    async def count(self, which: JobFilter) -> dict[JobState, int]:
        search = Search.of(which, self._records)
        return await (self._jobs.count(which) if search is None else search.count(self._jobs))

    async def within(self, connection: object, work: Work[T]) -> T:
        records = self._records
        return await self._jobs.within(connection, lambda jobs: work(SealedWithin(jobs, records)))

    def within_sync(self, connection: object, work: Work[T]) -> T:
        records = self._records
        return self._jobs.within_sync(connection, lambda jobs: work(SealedWithin(jobs, records)))
